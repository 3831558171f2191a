"""What is said of the noise of a release is what the release states."""

import numpy as np
import pytest
from instances import MECHANISMS

import symdebias as sd
from symdebias.noise import AdditiveNoise, SphericalNoise
from symdebias.release.wording import noise_in_words


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_named_with_its_budget_and_its_scale(name):
    mechanism = MECHANISMS[name]
    width = mechanism.width or 3
    columns = tuple(f"c{index}" for index in range(width))
    try:
        release = sd.Release({columns if width > 1 or mechanism.width is None else "c0": mechanism})
    except ValueError:
        release = sd.Release({"c0": mechanism}) if "clipped" not in name else sd.Release(None, mechanism)
    *of_features, target = noise_in_words(release)
    if release.columns is None:
        (names, said), width = target, 1
        assert (names, of_features) == ("target", [("features", "released as they are")])
    else:
        ((names, said),), width = of_features, len(release.columns)
        assert names == ", ".join(release.columns)
        assert target == ("target", "released as it is")
    guarantee = mechanism.guarantee
    assert ("no privacy claim" if guarantee is None else f"epsilon {guarantee.epsilon:.4g}") in said
    noise = mechanism.noise_on(width)
    if isinstance(noise, (AdditiveNoise, SphericalNoise)):
        sizes = np.sqrt(noise.coordinate_variances(width))
        assert f"{sizes.min():.4g}" in said
        assert f"{sizes.max():.4g}" in said


def test_what_is_one_vector_is_said_so():
    release = sd.Release(sd.GaussianMechanism(8.0, 1e-5, radius=1.0), target="margin", fit_intercept=True)
    ((names, said),) = noise_in_words(release, 3)
    assert names == "features"
    assert "one vector (y x, y) is released" in said
    # Sensitivity 2 sqrt(R^2 + c^2), by hand from the noise of the unit ball's.
    alone = sd.GaussianMechanism(8.0, 1e-5, radius=1.0).noise.variance ** 0.5
    assert f"standard deviation {alone * np.sqrt(2):.4g}" in said


def test_many_columns_are_counted():
    names = tuple(f"p{index}" for index in range(784))
    ((listed, _), _) = noise_in_words(sd.Release({names: sd.GaussianMechanism.from_scale(0.5)}))
    assert listed == "p0, p1, p2, ..., p783 (784 columns)"


def test_noise_of_a_known_scale_is_said_to_be_that_of_each_record():
    """A budget says the scale of its noise; a scale that was estimated is known so well for each record, too."""
    release = sd.Release({
        "x": sd.GaussianMechanism.from_scale(1.0), "z": sd.GaussianMechanism.from_estimate(1.0, 9.0),
        "w": sd.LaplaceMechanism.from_scale(1.0), "v": sd.GaussianMechanism(1.0, 1e-5, radius=1.0),
    })  # fmt: skip
    said = dict(noise_in_words(release, has_scales=True))
    assert said["x"] == "Gaussian (no privacy claim), standard deviations of each record's own"
    assert said["z"].endswith("of each record's own, estimated with 9 degrees of freedom")
    assert [said[name] for name in "wv"] == [dict(noise_in_words(release))[name] for name in "wv"]

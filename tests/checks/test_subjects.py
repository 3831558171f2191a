"""What is audited: records go in and come out in the units and codes that users see, clipped to the declared edge."""

import instances
import numpy as np
import pytest

import symdebias as sd
from symdebias.checks.subjects import subject_of

pytestmark = pytest.mark.newest

GAUSS = sd.GaussianMechanism(4.0, 1e-5, 1.0)
RELEASES = {
    "mixed": instances.mixed_release(target=sd.RandomizedResponse(epsilon=1.0)),
    "mixed, continuous target": instances.mixed_release(target=sd.LaplaceMechanism(1.0, bounds=(0, 10))),
    "one mechanism": sd.Release(GAUSS, sd.RandomizedResponse(1.0)),
    "no target": sd.Release(GAUSS),
    "target alone": sd.Release(target=sd.RandomizedResponse(1.0, ("a", "b", "c")), noiseless=("x",)),
    "numbers as categories": sd.Release(
        {"k": sd.RandomizedResponse(1.0, (3, 0.5, 1))}, sd.RandomizedResponse(1.0, (3, 0.5, 1))
    ),
    "label randomizer": sd.Release(
        {"x": sd.LaplaceMechanism(1.0, bounds=(0, 1))},
        sd.labels.debiased_randomized_response(labels=(0, 1, 2), epsilon=1.0),
    ),
    "centre and scale": sd.Release(
        {
            "age": sd.LaplaceMechanism(1.0, bounds=(-1, 1)),
            "c": sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 3), step=0.1),
        },
        center={"age": 40.0}, scale={"age": 0.37},
    ),
    "margin": sd.Release(GAUSS, "margin", fit_intercept=True, target_scale=0.3),
    "margin, labels 0 and 1": sd.Release({("a", "b"): GAUSS}, "margin", target_values=(0, 1)),
    "joint": sd.Release(sd.LaplaceMechanism(2.0, radius=1.0), "joint", target_bounds=(-2, 5), target_scale=0.2),
    "indicators": sd.Release(
        {("age", "place"): sd.SphericalLaplaceMechanism(2.0, 1.5)}, "margin", fit_intercept=True,
        categories={"place": ("n", "e", "s")}, center={"age": 40.0}, scale={"age": 10.0},
    ),
}  # fmt: skip


def subject(name):
    return subject_of(RELEASES[name], RELEASES[name].guarantee, None)


@pytest.mark.parametrize("name", RELEASES)
def test_records_are_clipped_to_the_declared_edge(name):
    audited = subject(name)
    for case in (*audited.pair, *audited.outside, audited.resting):
        (center,) = audited.clipped(case.raw[None])
        np.testing.assert_allclose(center, case.center, atol=1e-12)
    span = np.abs(audited.pair[0].center - audited.pair[1].center)
    assert all(span[part.place].max() > 0 for part in audited.parts)


@pytest.mark.parametrize("name", RELEASES)
def test_what_is_sent_is_the_centre_and_its_noise(name):
    """Means of 4,000 records within six standard errors, for numbers; labels are among the outputs."""
    audited = subject(name)
    for case in (audited.pair[0], *audited.outside[:1]):
        sent = audited.draw(case.raw, 4000, np.random.default_rng(0))
        assert sent.shape == (4000, len(case.center))
        for part in audited.parts:
            noise, rows = part.noise, sent[:, part.place]
            if hasattr(noise, "matrix"):
                assert np.isin(rows, noise.outputs).all()
                continue
            off = np.abs(rows.mean(axis=0) - case.center[part.place])
            assert np.all(off < 6 * np.sqrt(np.array(noise.coordinate_variances(part.width)) / 4000))


def test_records_anywhere_lie_on_all_sides_of_the_edge():
    audited = subject("mixed")
    rows = audited.anywhere(300, np.random.default_rng(0))
    clipped = audited.clipped(rows)
    moved = np.abs(rows - clipped).max(axis=1) > 1e-6
    assert 50 < moved.sum() < 300
    assert np.abs(clipped[:, :2]).max() <= 1.0


def test_a_release_takes_no_inputs():
    with pytest.raises(ValueError, match="Leave values out"):
        subject_of(RELEASES["no target"], RELEASES["no target"].guarantee, (0, 1))

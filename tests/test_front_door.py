"""The public names: few at the root, every other one in the one room where a user would look."""

import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import symdebias as sd

NOUNS = {
    "Certificate", "CorrectedLoss", "Fit", "Formula", "FractionSurrogate", "Guarantee", "Ledger", "Loss",
    "NoiseDescription", "Release", "Schema",
}  # fmt: skip
MECHANISMS = {
    "ClippedMechanism", "DiscreteLaplaceMechanism", "DiscreteStaircaseMechanism", "FiniteChannel", "GaussianMechanism",
    "InputPerturbation", "LabelRandomizer", "LaplaceMechanism", "RandomizedResponse", "SphericalCapMechanism",
    "SphericalLaplaceMechanism", "StaircaseMechanism", "UniformMechanism",
}  # fmt: skip
FUNCTIONS = {
    "bias", "compile_kernels", "debias", "derivation_limits", "dp_lssgd", "fit", "input_perturbation",
    "laplacian_smoothing", "load", "m_estimate", "objective_perturbation", "optimal_unbiased_randomizer",
    "output_perturbation", "plan", "sgd", "sgd_replicates", "surrogate_of_fractions",
}  # fmt: skip
# Imported when they are first asked for, since they need scikit-learn.
ESTIMATORS = {"CorrectedScorer", "DebiasedClassifier", "DebiasedRegressor", "ReleaseScaler"}
ROOMS = {
    "blocks", "checks", "distributed", "evaluation", "exceptions", "labels", "literature", "losses", "planning",
    "quadratic", "step_sizes",
}  # fmt: skip
# Its functions have the names of those that do the same for records in memory.
MIRROR = "distributed"
# What is asked for so often that it has a second place.
AGAIN = {"labels.optimal_unbiased_randomizer", "planning.plan"}
AT_BOTH = {"optimal_unbiased_randomizer", "plan", *sd.exceptions.__all__}
REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
PUBLIC = [*(name for name in sd.__all__ if name not in ROOMS), *sorted(ESTIMATORS)]
PUBLIC += [f"{room}.{name}" for room in sorted(ROOMS) for name in getattr(sd, room).__all__]


def value(place):
    room, _, name = place.rpartition(".")
    return getattr(getattr(sd, room) if room else sd, name)


def test_the_root_holds_what_every_fit_needs():
    wanted = NOUNS | MECHANISMS | FUNCTIONS | ROOMS | set(sd.exceptions.__all__)
    assert len(sd.__all__) == len(set(sd.__all__))
    assert set(sd.__all__) == wanted
    assert set(dir(sd)) == wanted | ESTIMATORS | {"__version__"}


def test_every_error_is_at_the_root():
    defined = {name for name, one in vars(sd.exceptions).items() if isinstance(one, type)}
    assert defined == set(sd.exceptions.__all__)


def test_no_name_has_two_places():
    names = Counter(place.rpartition(".")[2] for place in PUBLIC if not place.startswith(MIRROR))
    assert {name for name, count in names.items() if count > 1} == AT_BOTH
    for name in AT_BOTH:
        assert len({id(value(place)) for place in PUBLIC if place.rpartition(".")[2] == name}) == 1


@pytest.mark.parametrize("place", PUBLIC)
def test_every_public_name_is_documented(place):
    assert value(place).__doc__
    # Errors are listed where they are defined.
    name = place.rpartition(".")[2]
    listed = f"exceptions.{name}" if name in sd.exceptions.__all__ else place
    assert place in AGAIN or f"\n   {listed}\n" in REFERENCE.read_text(), "it is in no list of the reference"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_has_no_public_function_that_it_does_not_list(room):
    module = getattr(sd, room)
    own = {
        name
        for name, one in vars(module).items()
        if not name.startswith("_") and not isinstance(one, ModuleType) and callable(one)
        and getattr(one, "__module__", "").startswith(module.__name__ + ".")
    }  # fmt: skip
    assert own - {"Loss"} <= set(module.__all__)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("evaluate", "symdebias.evaluation.evaluate"),
        ("records_needed", "symdebias.planning.records_needed"),
        ("simex", "symdebias.literature.simex"),
        ("private_prior", "symdebias.labels.private_prior"),
        ("inverse_time", "symdebias.step_sizes.inverse_time"),
        ("as_quadratic", "symdebias.quadratic.as_quadratic"),
        ("logistic", "symdebias.losses.logistic"),
        ("check_unbaised", "symdebias.checks.check_unbiased"),
        ("sdg", "symdebias.sgd"),
        ("DebiasedClasifier", "symdebias.DebiasedClassifier"),
    ],
)
def test_a_name_that_is_not_there_is_pointed_out(name, advice):
    with pytest.raises(AttributeError) as raised:
        getattr(sd, name)
    assert str(raised.value) == f"module 'symdebias' has no attribute {name!r}. Use {advice}"


def test_an_unknown_name_is_just_unknown():
    with pytest.raises(AttributeError, match=r"no attribute 'xylophone'$"):
        _ = sd.xylophone


def test_messages_leave_the_last_full_stop_to_python():
    """It ends them with one before its own "Did you mean"."""
    for name in ("debais", "xylophone"):
        with pytest.raises(AttributeError, match=r"[\w']$"):
            getattr(sd, name)
    for name in ("logistc", "xylophone"):
        with pytest.raises(AttributeError, match=r"symdebias\.Loss$"):
            getattr(sd.losses, name)


FIRST_FIT = textwrap.dedent(
    """
    import sys
    import numpy as np, symdebias as sd
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3, radius=1.0), target=sd.RandomizedResponse(epsilon=2.0))
    X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(100, 2))
    noised = sd.Release.from_json(release.to_json()).privatize(X, np.where(X[:, 0] > 0, 1, -1), random_state=0)
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    fit = sd.m_estimate(corrected, noised.X, noised.y, l2=50.0)
    sd.SphericalCapMechanism, corrected.certificate, fit.summary(), fit.confidence_interval(0.95), fit.predict(X)
    print(*sys.modules)
    """
)
# Each costs a tenth of a second or more, or is optional; and rooms that a first fit does not enter.
HEAVY = (
    "scipy.stats", "scipy.interpolate", "scipy.integrate", "scipy.ndimage", "scipy.signal", "scipy.cluster",
    "matplotlib", "pandas", "polars", "pyarrow", "narwhals", "sklearn", "tqdm", "clarabel", "IPython", "http.server",
    "symdebias.interfaces", "symdebias.evaluation", "symdebias.planning", "symdebias.solvers.literature",
    "symdebias.checks.probes", "symdebias.checks.auditing",
)  # fmt: skip


def test_a_first_fit_imports_nothing_that_it_does_not_need():
    run = subprocess.run([sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert "symdebias.solvers.m_estimation" in loaded
    assert not [name for name in loaded for one in HEAVY if f"{name}.".startswith(f"{one}.")]

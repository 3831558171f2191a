"""Fit models honestly to data that was released with noise.

Declare a loss, say how the records were noised, and get the corrected loss and gradient: unbiased on the
noised records, compiled, with a certificate.

What every fit needs stands here. The rest has rooms: `losses`, `planning` before the data exist, `labels` for
randomizers of labels, `step_sizes`, `evaluation` of models, `literature` for methods to compare with, `quadratic`
losses, `checks` of mechanisms and solvers, `blocks` for records that are larger than memory, `distributed` for records
on many machines, and `exceptions`.
"""

import difflib
import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING, Any

from symdebias import _garbage, _optional

if TYPE_CHECKING:
    from symdebias import blocks, checks, evaluation, exceptions, labels, losses, planning, quadratic
    from symdebias._limits import derivation_limits
    from symdebias.assessment import Certificate, bias
    from symdebias.corrected import CorrectedLoss
    from symdebias.derivation.fractions import FractionSurrogate, surrogate_of_fractions
    from symdebias.driver import debias
    from symdebias.exceptions import (
        CacheWarning,
        ClippingWarning,
        ConvergenceWarning,
        DerivationLimitError,
        DivergenceError,
        ExpressionError,
        FitInterrupted,
        FormatError,
        InferenceError,
        InfiniteVarianceError,
        MissingDependencyError,
        NoExactCorrectionError,
        PrivacyError,
        SymdebiasError,
        VarianceWarning,
    )
    from symdebias.interfaces import distributed
    from symdebias.interfaces.ahead import compile_kernels
    from symdebias.interfaces.estimators import DebiasedClassifier as DebiasedClassifier
    from symdebias.interfaces.estimators import DebiasedRegressor as DebiasedRegressor
    from symdebias.interfaces.formulas import Formula, fit
    from symdebias.interfaces.scaling import ReleaseScaler as ReleaseScaler
    from symdebias.interfaces.scoring import CorrectedScorer as CorrectedScorer
    from symdebias.labels import optimal_unbiased_randomizer
    from symdebias.losses.loss import Loss
    from symdebias.mechanisms import (
        ClippedMechanism,
        DiscreteLaplaceMechanism,
        DiscreteStaircaseMechanism,
        FiniteChannel,
        GaussianMechanism,
        InputPerturbation,
        LabelRandomizer,
        LaplaceMechanism,
        RandomizedResponse,
        SphericalCapMechanism,
        SphericalLaplaceMechanism,
        StaircaseMechanism,
        UniformMechanism,
    )
    from symdebias.planning.plan import plan
    from symdebias.privacy import Guarantee, Ledger
    from symdebias.release import NoiseDescription, Release, Schema, load
    from symdebias.solvers import (
        Fit,
        dp_lssgd,
        input_perturbation,
        laplacian_smoothing,
        literature,
        m_estimate,
        objective_perturbation,
        output_perturbation,
        step_sizes,
    )
    from symdebias.solvers.replicates import sgd_replicates
    from symdebias.solvers.sgd import sgd

__version__ = "0.1.0"

# Where each name lives. It is imported when it is first asked for, so that `symdebias --version` and a word that is
# mistyped on the command line are answered before SymPy and Numba are there.
_HOMES = {
    "_limits": ("derivation_limits",),
    "assessment": ("Certificate", "bias"),
    "corrected": ("CorrectedLoss",),
    "derivation.fractions": ("FractionSurrogate", "surrogate_of_fractions"),
    "driver": ("debias",),
    "exceptions": (
        "CacheWarning", "ClippingWarning", "ConvergenceWarning", "DerivationLimitError", "DivergenceError",
        "ExpressionError", "FitInterrupted", "FormatError", "InferenceError", "InfiniteVarianceError",
        "MissingDependencyError", "NoExactCorrectionError", "PrivacyError", "SymdebiasError", "VarianceWarning",
    ),
    "interfaces": ("distributed",),
    "interfaces.ahead": ("compile_kernels",),
    "interfaces.formulas": ("Formula", "fit"),
    "labels": ("optimal_unbiased_randomizer",),
    "losses.loss": ("Loss",),
    "mechanisms": (
        "ClippedMechanism", "DiscreteLaplaceMechanism", "DiscreteStaircaseMechanism", "FiniteChannel",
        "GaussianMechanism", "InputPerturbation", "LabelRandomizer", "LaplaceMechanism", "RandomizedResponse",
        "SphericalCapMechanism", "SphericalLaplaceMechanism", "StaircaseMechanism", "UniformMechanism",
    ),
    "planning": ("plan",),
    "privacy": ("Guarantee", "Ledger"),
    "release": ("NoiseDescription", "Release", "Schema", "load"),
    "solvers": (
        "Fit", "dp_lssgd", "input_perturbation", "laplacian_smoothing", "literature", "m_estimate",
        "objective_perturbation", "output_perturbation", "sgd", "sgd_replicates", "step_sizes",
    ),
}  # fmt: skip
# They need scikit-learn: `from symdebias import *` leaves them out.
_ESTIMATORS = {
    "CorrectedScorer": "interfaces.scoring",
    "DebiasedClassifier": "interfaces.estimators",
    "DebiasedRegressor": "interfaces.estimators",
    "ReleaseScaler": "interfaces.scaling",
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names}
_PLACES |= _ESTIMATORS

# Pictures and pages stand above the fits that they show, and are methods of these.
_optional.provide("plot", "symdebias.interfaces.plotting", "coefficients")
_optional.provide("report", "symdebias.interfaces.report", "report")

__all__ = [
    "CacheWarning",
    "Certificate",
    "ClippedMechanism",
    "ClippingWarning",
    "ConvergenceWarning",
    "CorrectedLoss",
    "DerivationLimitError",
    "DiscreteLaplaceMechanism",
    "DiscreteStaircaseMechanism",
    "DivergenceError",
    "ExpressionError",
    "FiniteChannel",
    "Fit",
    "FitInterrupted",
    "FormatError",
    "Formula",
    "FractionSurrogate",
    "GaussianMechanism",
    "Guarantee",
    "InferenceError",
    "InfiniteVarianceError",
    "InputPerturbation",
    "LabelRandomizer",
    "LaplaceMechanism",
    "Ledger",
    "Loss",
    "MissingDependencyError",
    "NoExactCorrectionError",
    "NoiseDescription",
    "PrivacyError",
    "RandomizedResponse",
    "Release",
    "Schema",
    "SphericalCapMechanism",
    "SphericalLaplaceMechanism",
    "StaircaseMechanism",
    "SymdebiasError",
    "UniformMechanism",
    "VarianceWarning",
    "bias",
    "blocks",
    "checks",
    "compile_kernels",
    "debias",
    "derivation_limits",
    "distributed",
    "dp_lssgd",
    "evaluation",
    "exceptions",
    "fit",
    "input_perturbation",
    "labels",
    "laplacian_smoothing",
    "literature",
    "load",
    "losses",
    "m_estimate",
    "objective_perturbation",
    "optimal_unbiased_randomizer",
    "output_perturbation",
    "plan",
    "planning",
    "quadratic",
    "sgd",
    "sgd_replicates",
    "step_sizes",
    "surrogate_of_fractions",
]


def __dir__() -> list[str]:
    return [*__all__, *_ESTIMATORS, "__version__"]


if not TYPE_CHECKING:  # for which every name would exist

    def __getattr__(name: str) -> Any:
        """Import what is asked for; or say where a name lives, or which one is spelled much like it."""
        if name in _PLACES:
            with _garbage.uncollected():
                value = getattr(importlib.import_module(f"symdebias.{_PLACES[name]}"), name)
            globals()[name] = value
            return value
        # Rooms, and other modules as attributes of the package.
        if not name.startswith("__") and importlib.util.find_spec(f"symdebias.{name}") is not None:
            with _garbage.uncollected():
                return importlib.import_module(f"symdebias.{name}")
        # The last full stop is Python's, which may go on with a name of its own.
        message = f"module 'symdebias' has no attribute {name!r}"
        if name.startswith("__"):
            raise AttributeError(message)
        rooms = {room: value for room in __all__ if isinstance(value := __getattr__(room), ModuleType)}
        public = {f"symdebias.{one}": one for one in (*__all__, *_ESTIMATORS)}
        public |= {f"symdebias.{room}.{one}": one for room, value in rooms.items() for one in value.__all__}
        # What is asked for at the root is meant for records in memory.
        found = [place for place, one in public.items() if one == name]
        places = sorted(found, key=lambda place: ".distributed." in place)
        if not places:
            alike = difflib.get_close_matches(name, public.values(), n=1)
            places = [place for place, one in public.items() if one in alike]
        raise AttributeError(f"{message}. Use {places[0]}" if places else message)

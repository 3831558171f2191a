"""Fit models honestly to data that was released with noise.

Declare a loss, say how the records were noised, and get the corrected loss and gradient: unbiased on the
noised records, compiled, with a certificate.

What every fit needs stands here. The rest has rooms: `losses`, `planning` before the data exist, `labels` for
randomizers of labels, `step_sizes`, `evaluation` of models, `literature` for methods to compare with, `quadratic`
losses, `checks` of mechanisms and solvers, and `exceptions`.
"""

import difflib
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from symdebias import checks, evaluation, exceptions, labels, losses, planning, quadratic
from symdebias._budget import derivation_limits
from symdebias.assessment import Certificate, bias
from symdebias.corrected import CorrectedLoss
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
from symdebias.planning import plan
from symdebias.privacy import Guarantee, Ledger
from symdebias.release import Release
from symdebias.solvers import (
    Fit,
    dp_lssgd,
    input_perturbation,
    laplacian_smoothing,
    literature,
    m_estimate,
    objective_perturbation,
    output_perturbation,
    sgd,
    step_sizes,
)

if TYPE_CHECKING:
    from symdebias.interfaces.estimators import CorrectedScorer as CorrectedScorer
    from symdebias.interfaces.estimators import DebiasedClassifier as DebiasedClassifier
    from symdebias.interfaces.estimators import DebiasedRegressor as DebiasedRegressor

__version__ = "0.1.0"

# Names that need scikit-learn, imported when they are first asked for. `from symdebias import *` leaves them out.
_ESTIMATORS = "symdebias.interfaces.estimators"
_ON_DEMAND = dict.fromkeys(("CorrectedScorer", "DebiasedClassifier", "DebiasedRegressor"), _ESTIMATORS)

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
    "PrivacyError",
    "RandomizedResponse",
    "Release",
    "SphericalCapMechanism",
    "SphericalLaplaceMechanism",
    "StaircaseMechanism",
    "SymdebiasError",
    "UniformMechanism",
    "VarianceWarning",
    "bias",
    "checks",
    "debias",
    "derivation_limits",
    "dp_lssgd",
    "evaluation",
    "exceptions",
    "input_perturbation",
    "labels",
    "laplacian_smoothing",
    "literature",
    "losses",
    "m_estimate",
    "objective_perturbation",
    "optimal_unbiased_randomizer",
    "output_perturbation",
    "plan",
    "planning",
    "quadratic",
    "sgd",
    "step_sizes",
]


def __dir__() -> list[str]:
    return [*__all__, *_ON_DEMAND, "__version__"]


if not TYPE_CHECKING:  # for which every name would exist

    def __getattr__(name: str) -> Any:
        """Return what is imported on demand; or say where a name lives, or which one is spelled much like it."""
        if name in _ON_DEMAND:
            return getattr(importlib.import_module(_ON_DEMAND[name]), name)
        message = f"module 'symdebias' has no attribute {name!r}."
        rooms = {room: value for room in __all__ if isinstance(value := globals()[room], ModuleType)}
        public = {f"symdebias.{one}": one for one in (*__all__, *_ON_DEMAND)}
        public |= {f"symdebias.{room}.{one}": one for room, value in rooms.items() for one in value.__all__}
        places = [place for place, one in public.items() if one == name]
        if not places:
            alike = difflib.get_close_matches(name, public.values(), n=1)
            places = [place for place, one in public.items() if one in alike]
        raise AttributeError(f"{message} Use {places[0]}." if places else message)

"""Evaluate a model on released records: losses, rates, ROC curve, R2, calibration and cross-validation.

The mean of a loss on noised records is not that of the true ones, and a model that is chosen by it is the wrong one.
Here every metric is made of means over released records, of numbers whose mean over the noise is that of the true
record: exact where the metric allows it, and otherwise through a surrogate whose bias is stated and widens the
intervals.
"""

from symdebias.evaluation.calibration import CalibrationCurve, calibration_curve
from symdebias.evaluation.cross_validation import CrossValidation, cross_validate
from symdebias.evaluation.estimate import Estimate, evaluate
from symdebias.evaluation.overview import Evaluation, evaluate_all
from symdebias.evaluation.roc import RocCurve, roc_curve

__all__ = [
    "CalibrationCurve",
    "CrossValidation",
    "Estimate",
    "Evaluation",
    "RocCurve",
    "calibration_curve",
    "cross_validate",
    "evaluate",
    "evaluate_all",
    "roc_curve",
]

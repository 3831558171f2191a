"""The metrics by name, and what others call them: what reads the words of users looks here, before NumPy is there."""

from symdebias._names import as_name, by_other_names, meant

METRICS = (
    "log_loss", "brier", "accuracy", "precision", "recall", "f1", "roc_auc", "squared_error", "r2", "poisson",
)  # fmt: skip
_ELSEWHERE = {
    "accuracy": "acc accuracy_score",
    "brier": "brier_score brier_score_loss neg_brier_score",
    "f1": "f1_score f_score fscore",
    "log_loss": "bce cross_entropy deviance logistic logloss neg_log_loss",
    "precision": "ppv precision_score",
    "r2": "r2_score r_squared rsquared",
    "recall": "recall_score sensitivity tpr",
    "roc_auc": "auc auc_score auroc c_statistic roc_auc_score",
    "squared_error": "l2 least_squares mean_squared_error mse neg_mean_squared_error squared_loss",
}
_OWN = by_other_names(_ELSEWHERE)
_ROOTS = ("rmse", "root_mean_squared_error", "neg_root_mean_squared_error")


def called_here(name: str) -> str:
    """Return what a metric is called here that others call so, or that is mistyped, as a sentence; empty if unknown.

    Examples
    --------
    >>> called_here("AUC"), called_here("kappa")
    ('Here it is called roc_auc.', '')
    """
    if as_name(name) in _ROOTS:
        return "It is the root of squared_error."
    own = meant(name, METRICS, _OWN)
    return f"Here it is called {own}." if own else ""

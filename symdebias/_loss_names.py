"""The losses of the catalogue by name, without their expressions: what reads the words of users looks here.

One line for each; tests hold what it says against the expressions. SymPy is not imported, so that a mistyped name is
answered before it is there.
"""

from dataclasses import dataclass

from symdebias._names import as_name, by_other_names, meant


@dataclass(frozen=True)
class Entry:
    """What is known of a loss by its name."""

    # {"margin", "residual", "apart"}: What it takes of a record: y u, y - u, or score and target by themselves.
    reads: str
    # {"label", "labels", "number", "count"}: Two labels, several, any number, or a number that is not below 0, as
    # counts are.
    target: str
    # The argument without which there is no loss; empty where there is none. The number of ``classes`` is known where
    # there are labels.
    needs: str = ""


CATALOGUE = {
    "cauchy": Entry("residual", "number"),
    "expectile": Entry("residual", "number", needs="level"),
    "exponential": Entry("margin", "label"),
    "gamma": Entry("apart", "count"),
    "hinge": Entry("margin", "label"),
    "huber": Entry("residual", "number"),
    "least_squares": Entry("residual", "number"),
    "logistic": Entry("margin", "label"),
    "negative_binomial": Entry("apart", "count"),
    "poisson": Entry("apart", "count"),
    "probit": Entry("margin", "label"),
    "quantile": Entry("residual", "number"),
    "softmax": Entry("apart", "labels", needs="classes"),
    "squared_hinge": Entry("margin", "label"),
    "squared_margin": Entry("margin", "label"),
    "tweedie": Entry("apart", "count"),
}
# What has no place in the catalogue, by the names that it is asked for, and what to do.
_COX = (
    "Cox's partial likelihood is no sum of losses of single records: an event has the logarithm of a sum over all at "
    "risk in it, whose noises it mixes. A hazard that is constant within intervals is a Poisson loss of the intervals "
    "that each person was observed in: "
    'sd.fit("died ~ x + C(interval)", rows, release, loss="poisson", exposure=..., clusters=person).'
)
_OUTSIDE = dict.fromkeys(("cox", "coxph", "cox_ph", "partial_likelihood", "proportional_hazards"), _COX)
# What others call a loss of the catalogue.
_ELSEWHERE = {
    "exponential": "adaboost exp exp_loss",
    "hinge": "hinge_loss svc svm",
    "huber": "huber_loss smooth_l1",
    "least_squares": "gaussian l2 l2_loss linear linear_regression mean_squared_error mse normal ols squared "
    "squared_error squared_loss",
    "logistic": "bce bernoulli binary_crossentropy binary_cross_entropy binomial cross_entropy crossentropy deviance "
    "logistic_loss logistic_regression logit logloss log_loss",
    "negative_binomial": "nb negbin",
    "poisson": "poisson_deviance",
    "quantile": "absolute_error l1 lad mae mean_absolute_error median pinball pinball_loss",
    "softmax": "categorical_crossentropy mnlogit multiclass multinomial sparse_categorical_crossentropy",
}
_OWN = by_other_names(_ELSEWHERE)


def why_outside(name: str) -> str:
    """Return why there is no loss of a name, and what to do; empty where nothing is to be said but the names."""
    return _OUTSIDE.get(as_name(name), "")


def called_here(name: str) -> str | None:
    """Return the loss of the catalogue that is meant by a name: that of another library, or one that is mistyped."""
    return meant(name, CATALOGUE, _OWN)


# Those that a name says all of, and those of which the labels say the rest.
BY_NAME = tuple(name for name, entry in CATALOGUE.items() if not entry.needs)
BY_NAME_AND_LABELS = tuple(name for name, entry in CATALOGUE.items() if entry.needs in ("", "classes"))
RESIDUAL = tuple(name for name in BY_NAME if CATALOGUE[name].reads == "residual")
# With the labels -1 and +1; an even function of the residual is one of the margin there.
MARGIN = tuple(name for name in BY_NAME if CATALOGUE[name].reads in ("margin", "residual"))

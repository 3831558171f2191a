"""Before the data exist: standard errors to expect, records needed, the split of a budget, the choice of a mechanism.

A plan needs a loss, a release and a *population*: records that stand for those to be collected, drawn from a guess or
from the moments of a pilot study. The population is noised as the records will be, and the sandwich covariance of
M-estimation on it says how accurate a fit to n records will be.
"""

from symdebias.planning.expected_fit import ExpectedFit, expected_fit, records_needed
from symdebias.planning.feasibility import Feasibility, feasibility
from symdebias.planning.plan import Option, Plan, plan
from symdebias.planning.population import Population
from symdebias.planning.radius import RadiusPilot
from symdebias.planning.rehearsal import Rehearsal, rehearse
from symdebias.planning.split import Split, best_split

__all__ = [
    "ExpectedFit",
    "Feasibility",
    "Option",
    "Plan",
    "Population",
    "RadiusPilot",
    "Rehearsal",
    "Split",
    "best_split",
    "expected_fit",
    "feasibility",
    "plan",
    "records_needed",
    "rehearse",
]

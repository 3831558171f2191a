"""The text of a step of descent: along a gradient, penalised, smoothed or scaled, back to the ball, and averaged.

Of the parameters one may be held at 1. A pass then moves the others, and puts them beside it where the corrected loss
takes all of them.
"""

from symdebias.codegen.program import Program, indented
from symdebias.codegen.smoothing import STEP_FUNCTION, smoothing_function


def smoothing_text(smoothed: bool) -> str:
    """Return the functions that a smoothed step calls."""
    return f"{smoothing_function()}\n{STEP_FUNCTION}" if smoothed else ""


def step_lines(
    q: int, smoothed: bool, scaled: bool = False, *, row: str = "", stop: str = "report[0] = 1\nreturn step"
) -> str:
    """Return lines that take a step along ``gradient``, and project and average theta.

    Parameters
    ----------
    q : int
        The number of parameters.
    smoothed, scaled : bool
        Whether gradients are smoothed, or multiplied with ``scaling``.
    row : str
        The first index of theta, step sizes, penalty, scaling, average and report where each replicate has a row of
        them, with its comma.
    stop : str
        Lines for a step that is not to be taken.
    """
    direction, turned = "", ""
    slope = f"(gradient[j] + penalty[{row}j]*theta[{row}j])"
    if smoothed:
        direction = f"""for j in range({q}):
    gradient[j] += penalty[{row}j]*theta[{row}j]
smooth_gradient(gradient, smoothing, smoothed)"""
        slope = "gradient[j]"
    if scaled:
        direction += f"""
for j in range({q}):
    smoothed[j] = {slope}"""
        slope = "turned"
        turned = f"""
    turned = 0.0
    for k in range({q}):
        turned += scaling[{row}j, k]*smoothed[k]"""
    return f"""{direction}
before = 0.0
norm = 0.0
for j in range({q}):{turned}
    before += theta[{row}j]*theta[{row}j]
    gradient[j] = theta[{row}j] - step_sizes[{row}step]*{slope}
    norm += gradient[j]*gradient[j]
norm = math.sqrt(norm)
limit = growth*(1.0 + math.sqrt(before))
if not norm < (runaway if runaway < limit else limit):
{indented(stop, 4)}
if norm > radius:
    shrink = radius/norm
    for j in range({q}):
        gradient[j] *= shrink
    report[{row}1] += 1
# Not theta[:] = gradient, for which Numba compiles the text of an error about shapes: as long as all the rest.
for j in range({q}):
    theta[{row}j] = gradient[j]
if averaged >= 0.0:
    averaged += 1.0
    for j in range({q}):
        average[{row}j] += (theta[{row}j] - average[{row}j])/averaged"""


def is_within(program: Program) -> str:
    """Return a function that says whether parameters lie where the correction and its variance exist."""
    body = f"{program.guard()}\nreturn variance < limits[0] and reach < limits[1]"
    return function("is_within(theta, noise, limits)", body)


def put_lines(to: str, of: str, q: int, held: int | None, *, row: str = "") -> str:
    """Return lines that put q parameters where all are, one of which may be held.

    Parameters
    ----------
    to, of : str
        The names of both.
    q : int
        How many there are without the one that is held.
    held : int or None
        The place of that among all.
    row : str
        The first index of `of`, with its comma, where each replicate has a row of them.
    """
    plain = f"for j in range({q if held is None else held}):\n    {to}[j] = {of}[{row}j]"
    return plain if held is None else f"{plain}\nfor j in range({held}, {q}):\n    {to}[j + 1] = {of}[{row}j]"


def taken_lines(to: str, of: str, q: int, held: int) -> str:
    """Return lines that take the entries of q parameters from those of all; the arguments are as for `put_lines`."""
    plain = f"for j in range({held}):\n    {to}[j] = {of}[j]"
    return f"{plain}\nfor j in range({held}, {q}):\n    {to}[j] = {of}[j + 1]"


def function(head: str, body: str) -> str:
    """Return a function of the module, whose names are its own."""
    return f"""
@helper()
def {head}:
{indented(body, 4)}
"""

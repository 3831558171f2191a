"""Methods under noise that was estimated: what the error of the estimate does to their parameters."""

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias._randomness import generator
from symdebias.exceptions import InferenceError, SymdebiasError
from symdebias.inference import deciding_each
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.noise_estimates import is_estimated, moved_releases

_P = ParamSpec("_P")


def with_error_of_estimates(solver: Callable[_P, Fit]) -> Callable[_P, Fit]:
    """Return a method whose covariance has the error of an estimated noise in it.

    The method fits again with a little more and a little less noise, from the same random numbers; the difference of
    the parameters is what the error of the estimate does to them. See `symdebias.solvers.noise_estimates`. Arguments
    are those of a method: a loss, a release, records, and options by name.
    """
    signature = inspect.signature(solver)

    @functools.wraps(solver)
    @one_thread()
    def fitted(*given: _P.args, **options: _P.kwargs) -> Fit:
        bound = signature.bind(*given, **options)
        bound.apply_defaults()
        release = bound.arguments["release"]
        if not isinstance(release, Release) or not is_estimated(release):
            return solver(*given, **options)
        if "random_state" in bound.arguments:
            bound.arguments["random_state"] = generator(bound.arguments["random_state"])
        kept = copy.deepcopy(bound.arguments.get("random_state"))
        fit = solver(*bound.args, **bound.kwargs)
        if fit.inference is None or fit.inference.covariance is None:
            return fit

        def under(other: Release) -> FloatArray:
            bound.arguments["release"] = other
            if kept is not None:
                bound.arguments["random_state"] = copy.deepcopy(kept)
            return solver(*bound.args, **bound.kwargs).theta.ravel()

        return _widened(fit, release, under)

    return fitted


def _widened(fit: Fit, release: Release, under: Callable[[Release], FloatArray]) -> Fit:
    """Return a fit with the error of the estimates in its covariance."""
    assert fit.inference is not None
    assert fit.inference.covariance is not None
    plain = fit.inference.covariance
    whole, fourths = plain.copy(), np.zeros(len(plain))
    try:
        for one in moved_releases(release):
            slope = one.slope(under)
            added = one.variance * np.multiply.outer(slope, slope)
            whole, fourths = whole + added, fourths + np.diag(added) ** 2 / one.degrees_of_freedom
    except InferenceError as error:
        return _refused(fit, f"{error}")
    except SymdebiasError as error:
        return _refused(
            fit,
            f"the method has no fit where the noise is off by what its estimate may be: {error} Estimate the noise "
            "from more records.",
        )
    total = np.diag(whole)
    if not fourths.any():
        return fit
    own = fit.inference
    fourths = fourths + np.diag(plain) ** 2 / own.freedom(len(plain))
    freedom = np.floor(deciding_each(total, fourths))
    share = float(np.max(1 - np.diag(plain) / np.where(total > 0, total, 1.0), where=total > 0, initial=0.0))
    whole.setflags(write=False)
    note = f"the noise was estimated: up to {share:.2g} of the variance of a parameter comes from that"
    inference = replace(own, covariance=whole, notes=(*own.notes, note), degrees_of_freedom=freedom)
    return replace(fit, inference=inference)


def _refused(fit: Fit, reason: str) -> Fit:
    """Return a fit without a covariance, and the reason."""
    assert fit.inference is not None
    return replace(fit, inference=replace(fit.inference, covariance=None, refusal=reason, bias=None, bias_factors=None))

"""The symbols that a corrected loss has besides those of the declared one, and what a derivation returns."""

import functools
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.feature_program import FeatureProgram
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.program import ScoreProgram
from symdebias.release.design import SphericalGroup


@dataclass(frozen=True)
class NoiseSymbols:
    """The symbols of the noise."""

    # The noise covariance of the scores, upper triangle row by row; ``s`` alone for one score.
    variances: tuple[sp.Symbol, ...]
    target_variance: sp.Symbol  # ``t``, the noise variance of a continuous target.
    gain: sp.Symbol  # ``c``, the gain of the label estimate: coth(epsilon/2) for randomized response.
    # ``r``, the largest of abs(theta_j) times the scale of the tails of the noise of column j: b_j for Laplace noise.
    # Of several scores theta_j is that of their sum in an exponential of the loss, the largest weight in which is 1.
    reach: sp.Symbol

    @classmethod
    def beside(cls, expression: sp.Expr, scores: int = 1) -> "NoiseSymbols":
        """Return the symbols, with underscores after names that the expression has taken."""
        return _symbols_beside(expression, scores)

    @property
    def score_variance(self) -> sp.Symbol:
        """``s``, the noise variance theta'D theta of the only score."""
        return self.variances[0]


@functools.lru_cache(maxsize=256)
def _symbols_beside(expression: sp.Expr, scores: int) -> NoiseSymbols:
    """Return the symbols of `NoiseSymbols.beside`."""
    pairs = [(a, b) for a in range(scores) for b in range(a, scores)]
    names = ["s"] if scores <= 1 else [f"s_{a}{b}" for a, b in pairs]
    found = [free_symbol(name, expression) for name in (*names, "t", "c", "r")]
    return NoiseSymbols(tuple(found[:-3]), *found[-3:])


def free_symbol(name: str, expression: sp.Expr, **assumptions: bool) -> sp.Symbol:
    """Return a symbol with underscores after its name until the expression has none of that name."""
    taken = _names_in(expression)
    while name in taken:
        name += "_"
    return sp.Symbol(name, **(assumptions or {"positive": True}))


# Of fifty scores the noise has a thousand symbols.
@functools.lru_cache(maxsize=64)
def _names_in(expression: sp.Expr) -> frozenset[str]:
    return frozenset(symbol.name for symbol in expression.free_symbols)


@dataclass(frozen=True)
class Derivation:
    """A derived correction.

    Attributes
    ----------
    program : ScoreProgram or FeatureProgram
        The corrected loss as kernels take it.
    symbols : NoiseSymbols
        Its symbols for the noise.
    exact : bool
        Whether the derivation proves it exact.
    conditions, variance_conditions : tuple of sympy relationals
        What must hold for it to exist, and to have finite variance.
    constants : mapping from str to array
        The blocks of the kernels' vector of noise.
    rate : float
        The growth rate of the loss where noise with exponential tails limits it; 0 where it does not.
    directions : Directions or None
        How scores stand together in what grows so; None for all of them alike.
    notes : tuple of str
        What the user should know, as sentences.
    dense : bool
        Whether kernels take the dense design instead of categories' codes.
    spherical : tuple of SphericalGroup
        The groups of columns whose noise is alike in all directions.
    no_variance : str
        Why it has no finite variance whatever the parameters, as a clause; empty where it may have.
    mixing, offsets : array or None
        What the correction does to labels that a channel hides; see `symdebias.derivation.labels.Labelled`.
    """

    program: ScoreProgram | FeatureProgram
    symbols: NoiseSymbols
    exact: bool
    conditions: tuple[sp.Rel, ...] = ()
    variance_conditions: tuple[sp.Rel, ...] = ()
    constants: dict[str, FloatArray] = field(default_factory=dict)
    rate: float = 0.0
    directions: Directions | None = None
    notes: tuple[str, ...] = ()
    dense: bool = False
    mixing: FloatArray | None = None
    offsets: FloatArray | None = None
    spherical: tuple[SphericalGroup, ...] = ()
    no_variance: str = ""

    @property
    def expression(self) -> sp.Expr:
        """The corrected loss as a reader writes it, with the coefficients of surrogates that have been designed."""
        return self._with_numbers(self.program.expression)

    def gradient_expressions(self, *, in_two_terms: bool) -> tuple[sp.Expr, ...]:
        """Return the derivatives of the corrected loss.

        Parameters
        ----------
        in_two_terms : bool
            Whether it is a loss of one score under normal noise: slope and curvature K, with the gradient
            x~ slope - D theta K. Otherwise the derivatives by the scores, then by the statistics of the noise, or by
            the parameters of a free-form loss.
        """
        program = self.program
        if not isinstance(program, ScoreProgram):
            return tuple(stable.plain(part) for part in program.gradient)
        parts = (*program.slopes, *program.noise_slopes)
        if in_two_terms:
            parts = (program.slopes[0], -2 * sp.diff(program.expression, self.symbols.score_variance))
        return tuple(self._with_numbers(part) for part in parts)

    def _with_numbers(self, expression: sp.Expr) -> sp.Expr:
        written = stable.plain(expression)
        values = self.constants.get("coefficients", np.zeros(0))
        if not len(values) or np.isnan(values).any():
            return written
        names = self.program.coefficients  # type: ignore[union-attr]
        return written.xreplace({name: sp.Float(value, 17) for name, value in zip(names, values, strict=True)})

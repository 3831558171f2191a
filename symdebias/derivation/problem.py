"""A loss of scores with the noise of its columns, what a derivation collects, and the program that it ends in."""

import functools
import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import Constants, LabelTable, Tails
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.factors import FactorGroup, WaveGroup
from symdebias.codegen.score.normal import NormalNoise, RecordNoise, SphericalForm
from symdebias.codegen.score.products import CategoryProducts
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.score.statistic import Statistic
from symdebias.codegen.score.tables import CategoryFactors, ChannelTable
from symdebias.derivation.labels import Labelled
from symdebias.derivation.symbols import Derivation, NoiseSymbols, free_symbol
from symdebias.noise import AdditiveNoise
from symdebias.release.design import ColumnDesign, Linear, SphericalGroup


@dataclass
class Build:
    """What a derivation collects."""

    expression: sp.Expr
    exact: bool = True
    conditions: list[sp.Rel] = field(default_factory=list)
    variance_conditions: list[sp.Rel] = field(default_factory=list)
    groups: list[FactorGroup | WaveGroup] = field(default_factory=list)
    tables: list[ChannelTable] = field(default_factory=list)
    constants: dict[str, FloatArray] = field(default_factory=dict)
    configurations: int = 0
    observations: int = 0
    products: CategoryProducts | None = None
    coefficients: tuple[sp.Symbol, ...] = ()
    frequency: float = math.nan
    rate: float = 0.0
    directions: Directions | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScoreProblem:
    """A loss of scores with its label noise undone, and the noise of the columns."""

    scores: tuple[sp.Symbol, ...]
    target: sp.Symbol
    labelled: Labelled  # The loss.
    design: ColumnDesign  # The columns; `intercept` of the parameters where it has a place of its own.
    intercept: int | None  # The place of the intercept.
    symbols: NoiseSymbols  # Symbols of the noise.
    per_record: bool = False  # Whether each record has noise variances of its own.
    enumerate_categories: bool = False  # Whether to sum over categories even where factors could be looked up.

    @property
    def gaussian(self) -> bool:
        """Whether some column has normal noise."""
        return any(part.own_noise is not None and part.own_noise.is_gaussian for part in self.design.linear)

    @property
    def others(self) -> tuple[Linear, ...]:
        """The columns with additive noise that is not normal."""
        return tuple(
            part for part in self.design.linear if part.own_noise is not None and not part.own_noise.is_gaussian
        )

    @functools.cached_property
    def spherical(self) -> "tuple[SphericalNoiseOfScores, ...]":
        """The groups of columns with noise that is alike in all directions, with symbols for that of the scores."""
        pairs = list(itertools.combinations_with_replacement(range(len(self.scores)), 2))
        found = []
        for number, group in enumerate(self.design.spherical, start=1):
            names = [f"s{number}"] if len(self.scores) == 1 else [f"s{number}_{a}{b}" for a, b in pairs]
            symbols = tuple(free_symbol(name, self.labelled.expression) for name in names)
            covariance = sp.zeros(len(self.scores))
            for (a, b), symbol in zip(pairs, symbols, strict=True):
                covariance[a, b] = covariance[b, a] = symbol
            found.append(SphericalNoiseOfScores(group, symbols, covariance))
        return tuple(found)


@dataclass(frozen=True)
class SphericalNoiseOfScores:
    """The noise of one group of columns in the scores."""

    group: SphericalGroup  # The columns.
    symbols: tuple[sp.Symbol, ...]  # The form Theta D Theta' of their parameters, upper triangle row by row.
    covariance: sp.Matrix  # The same as a matrix.


def even_coefficients(noise: AdditiveNoise, order: int) -> tuple[float, ...]:
    """Return c_k with 1/phi(w) = sum c_k w^(2k), up to w^order: whole, or as far as a polynomial needs it."""
    if noise.inverse_polynomial is not None:
        return noise.inverse_polynomial[: order // 2 + 1]
    return tuple((-1) ** k * value for k, value in enumerate(noise.inverse_taylor(order)[::2]))


def finish(problem: ScoreProblem, build: Build) -> Derivation:
    """Return the derivation: the program of what was built, and the numbers that its kernels take."""
    design, labelled, symbols = problem.design, problem.labelled, problem.symbols
    build.constants["reach"] = np.array(
        [
            0.0 if part.own_noise is None or part.own_noise.tail_rate == math.inf else 1 / part.own_noise.tail_rate
            for part in design.linear
        ]
    )
    build.constants["target"] = np.array([labelled.variance, labelled.gain])
    statistics: list[Statistic] = [*_normal_noise(problem, build), *_spherical_noise(problem, build)]
    statistics.append(Tails(bool(build.groups or build.configurations), build.directions))
    statistics.append(Constants("target", (symbols.target_variance, symbols.gain)))
    label_codes = 0
    if labelled.levels and labelled.table is not None:
        build.constants["levels"] = np.tile(labelled.levels, build.configurations // len(labelled.levels))
        label_codes = len(labelled.table)
    elif labelled.table is not None:
        build.constants["labels"] = labelled.table
        statistics.append(LabelTable(labelled.symbols, len(labelled.table)))
    statistics += build.groups
    if build.tables:
        statistics.append(CategoryFactors(tuple(build.tables)))
    if build.products is not None:
        statistics.append(build.products)
    if build.configurations:
        statistics.append(Configurations(build.configurations, build.observations, label_codes))
    statistics.append(Constants("coefficients", build.coefficients))
    linear = tuple(design.linear_parameters)
    columns = ScoreColumns(problem.scores, linear, len(design.parameters), problem.intercept)
    program = ScoreProgram(build.expression, problem.target, columns, tuple(statistics))
    return Derivation(
        program,
        symbols,
        build.exact,
        tuple(build.conditions),
        tuple(build.variance_conditions),
        build.constants,
        build.rate,
        build.directions,
        (*labelled.notes, *build.notes),
        mixing=labelled.mixing,
        offsets=labelled.offsets,
        spherical=tuple(noise.group for noise in problem.spherical),
        no_variance=labelled.no_variance,
    )


def _spherical_noise(problem: ScoreProblem, build: Build) -> list[Statistic]:
    """Return the spherical noise of groups of columns, and keep their weights."""
    statistics: list[Statistic] = []
    for number, noise in enumerate(problem.spherical):
        group = noise.group
        weights = group.all_weights(len(problem.design.linear))
        tail = 0.0 if group.noise.tail_rate == math.inf else 1 / group.noise.tail_rate
        build.constants[f"group{number}"] = np.concatenate([weights, [group.constant, tail]])
        statistics.append(SphericalForm(noise.symbols, directions=build.directions))
    return statistics


def _held_conditions(build: Build, symbols: NoiseSymbols) -> tuple[sp.Expr, ...]:
    """Return what must be positive of the covariance of normal noise, so that the variance is finite."""
    return tuple(
        condition.gts - condition.lts
        for condition in (*build.conditions, *build.variance_conditions)
        if symbols.reach not in condition.free_symbols
    )


def _normal_noise(problem: ScoreProblem, build: Build) -> list[Statistic]:
    """Return the normal noise of the linear columns, where there is some, and keep its covariance."""
    if not problem.gaussian:
        return []
    linear, covariance = problem.design.linear, problem.design.linear_covariance
    full = bool(np.any(covariance - np.diag(np.diag(covariance))))
    build.constants["covariance"] = covariance if full and not problem.per_record else np.diag(covariance)
    positive = _held_conditions(build, problem.symbols) if len(problem.scores) > 1 else ()
    if positive:
        build.constants["beside_scores"] = np.array([problem.labelled.variance])
    variances = problem.symbols.variances
    noise = NormalNoise(variances, full and not problem.per_record, positive, problem.symbols.target_variance)
    if not problem.per_record:
        return [noise]
    noisy = (index for index, part in enumerate(linear) if part.own_noise is not None and part.own_noise.is_gaussian)
    return [RecordNoise(variances, tuple(noisy), noise)]

"""Every statistic in a program: the sums, the Jacobian and the second derivatives that it gives belong together."""

import dataclasses
import re

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd
from symdebias.codegen.cache import plain_kernel
from symdebias.codegen.kernels import Kernels, MeanDerivatives
from symdebias.codegen.program import PART
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import Constants, LabelTable
from symdebias.codegen.score.factors import FactorGroup, WaveGroup
from symdebias.codegen.score.normal import NormalNoise, RecordNoise
from symdebias.codegen.score.products import CategoryProducts
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.score.statistic import Share, Statistic
from symdebias.codegen.score.tables import CategoryFactors

pytestmark = pytest.mark.newest

KNOWN, WIDE = sd.GaussianMechanism.from_scale(0.3), sd.LaplaceMechanism.from_scale(0.2)
CORRELATED = sd.GaussianMechanism.from_covariance([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]])
COIN = sd.RandomizedResponse(epsilon=1.0)
LETTERS = sd.RandomizedResponse(epsilon=1.0, categories=("n", "e", "s"))
# An output from which nothing can be told.
MAYBE = sd.FiniteChannel([[0.5, 0.2, 0.3], [0.2, 0.5, 0.3]], ("no", "yes"), ("no", "yes", "perhaps"))
ABC, N = ("a", "b", "c"), 7
SURROGATE = {"radius": 3.0, "score_variance": 0.3, "n": 1000}
ENUMERATED = {"enumerate_categories": True}
U1, U2 = sp.symbols("u1 u2", real=True)
TWO = sd.Loss((U1 - U2 - Y) ** 2 + sp.exp(U1 / 3), score=(U1, U2), target=Y)
# High powers of the score are exact, beside a surrogate.
HIGH = sd.Loss(sp.log(1 + sp.exp(-Y * U)) + U**5 / 50 + U**4 / 10, score=U, target=Y, target_values=(-1, 1))
EXPONENTIAL, LOGISTIC = sd.losses.exponential(), sd.losses.logistic()


def codes(count):
    return sd.RandomizedResponse(epsilon=4.0, categories=tuple(range(count)))


def of_codes(count):
    return sd.Loss(sp.exp(-Y * U / count) * (1 + Y**2 * U), score=U, target=Y, target_values=tuple(range(count)))


# The loss, the noise of features and target, what the method takes, which kernels, and what must be in them.
CASES = {
    "variances": (EXPONENTIAL, {ABC: KNOWN}, COIN, {}, {}, {NormalNoise}),
    "covariance": (TWO, {ABC: CORRELATED}, None, {}, {}, {NormalNoise}),
    "records' own": (EXPONENTIAL, {("a", "b"): KNOWN, "c": WIDE}, COIN, {}, {"per_record": True},
                     {RecordNoise, FactorGroup}),
    "product of numbers": (EXPONENTIAL, dict.fromkeys(ABC, WIDE), COIN, {}, {}, {FactorGroup}),
    "product of polynomials": (TWO, dict.fromkeys(ABC, WIDE), None, {}, {}, {FactorGroup}),
    "waves": (LOGISTIC, {("a", "b"): KNOWN, "c": WIDE}, COIN, SURROGATE, {}, {NormalNoise, WaveGroup}),
    "many waves": (LOGISTIC, {ABC: KNOWN}, COIN, SURROGATE, {}, {NormalNoise}),
    "tables": (EXPONENTIAL, {"a": codes(12), "b": LETTERS, "c": KNOWN}, COIN, {}, {}, {CategoryFactors}),
    "products": (LOGISTIC, {"a": LETTERS, "b": COIN, "c": KNOWN}, COIN, SURROGATE, {}, {CategoryProducts}),
    "products beside waves": (sd.losses.hinge(), {"a": MAYBE, "b": WIDE, "c": COIN}, COIN, SURROGATE, {},
                              {CategoryProducts, WaveGroup}),
    "products of powers": (HIGH, {"a": LETTERS, "b": COIN, "c": KNOWN}, COIN, SURROGATE, {}, {CategoryProducts}),
    "products, records' own": (LOGISTIC, {"a": LETTERS, "b": COIN, "c": KNOWN}, COIN, SURROGATE,
                               {"per_record": True}, {CategoryProducts, RecordNoise}),
    "combinations": (EXPONENTIAL, {("a", "b"): KNOWN, "c": LETTERS}, COIN, {}, ENUMERATED,
                     {NormalNoise, Configurations}),
    "combinations, two scores": (TWO, {("a", "b"): KNOWN, "c": LETTERS}, None, {}, ENUMERATED, {Configurations}),
    "combinations, records' own": (EXPONENTIAL, {("a", "b"): KNOWN, "c": LETTERS}, COIN, {},
                                   ENUMERATED | {"per_record": True}, {RecordNoise, Configurations}),
    "labels": (of_codes(3), {ABC: KNOWN}, codes(3), {}, {}, {LabelTable}),
    "combinations with labels": (of_codes(15), {ABC: KNOWN}, codes(15), {}, {}, {Configurations}),
}  # fmt: skip


def data_of(program, rng, n=N):
    """Return records in the order of the kernels' columns: linear ones, codes, variances of the records' own."""
    outputs = [table.outputs for factors in program.having(CategoryFactors) for table in factors.tables]
    outputs += [count for products in program.having(CategoryProducts) for count in products.outputs]
    labels = [table.codes for table in program.having(LabelTable)]
    for sums in program.having(Configurations):
        outputs.append(sums.observations // max(sums.label_codes, 1))
        labels += [sums.label_codes] if sums.label_codes else []
    linear = len(program.columns.linear)
    X = np.column_stack(
        [rng.uniform(-1, 1, (n, linear)), *(rng.integers(0, count, n) for count in outputs),
         rng.uniform(0.1, 0.3, (n, program.width - linear - len(outputs)))]
    )  # fmt: skip
    return X, rng.integers(0, labels[0], n).astype(float) if labels else rng.choice([-1.0, 1.0], n)


@dataclasses.dataclass
class Plain:
    """The uncompiled kernels of a program at given records."""

    kernels: Kernels
    noise: np.ndarray
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray

    def losses(self, theta):
        out = np.empty(len(self.y))
        plain_kernel(self.kernels.source("loss"))(theta, self.X, self.y, self.noise, out)
        return out

    def gradients(self, theta, size=1):
        """Return the sums of the weighted gradients of so many records at a time."""
        program = self.kernels.program
        out = np.empty((len(self.y) // size, len(theta)))
        plain_kernel(self.kernels.source("mean_gradient", weighted=True))(
            theta, self.X, self.y, self.weights, 1.0, self.noise, size, np.empty(program.number_of_sums),
            np.empty(len(theta)), np.empty(program.number_kept), *self.kernels._tile(weighted=True), out,
            np.empty((0, 0)),
        )  # fmt: skip
        return out

    def gradients_of_slopes(self, theta):
        """Return the weighted gradients that the slopes of records make, or None where they are not kept."""
        program = self.kernels.program
        if program.slopes_kept is None:
            return None
        slopes = np.empty((program.slopes_kept, N))
        jacobian = np.empty((program.slopes_kept - len(program.scores), len(theta)))
        plain_kernel(self.kernels.source("mean_gradient", weighted=True))(
            theta, self.X, self.y, self.weights, 1.0, self.noise, 0, np.empty(program.number_of_sums),
            np.empty(len(theta)), np.empty(program.number_kept), *self.kernels._tile(weighted=True), jacobian, slopes,
        )  # fmt: skip
        return program.columns.gradients(slopes, self.X, jacobian)

    def derivatives(self, theta):
        filled = np.zeros(len(theta)), np.zeros((len(theta), len(theta))), np.zeros((len(theta), len(theta)))
        piece = self.kernels.program.derivatives(weighted=True)
        sums = {name: np.zeros(shape) for name, shape in piece.sums}
        work = [np.zeros(shape) for _, shape in piece.workspace]
        kernel = plain_kernel(self.kernels.source("mean_derivatives", weighted=True))
        given = theta, self.X, self.y, self.weights, 1.0, self.noise
        kernel(*given, *filled, *sums.values(), np.zeros((0, 0)), *work)
        piece.finish(sums, *filled, 1.0)
        return filled

    def gradients_of_derivatives(self, theta):
        """Return the weighted gradients that the pass for derivatives leaves, or None."""
        found = MeanDerivatives(
            plain_kernel(self.kernels.source("mean_derivatives", weighted=True)),
            self.kernels.program.derivatives(weighted=True),
            len(theta),
        )
        if not found.leaves_slopes:
            return None
        return found.gradients(theta, self.X, self.y, self.weights, self.noise)


def check(plain, theta):
    """Hold the gradient against differences of the loss, the Hessian against those of the gradient."""
    h = 1e-5
    steps = h * np.eye(len(theta))
    slopes = np.array([plain.losses(theta + e) - plain.losses(theta - e) for e in steps]).T / (2 * h)
    gradients = plain.gradients(theta)
    np.testing.assert_allclose(gradients, plain.weights[:, None] * slopes, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(plain.gradients(theta, N)[0], gradients.sum(axis=0), rtol=1e-11, atol=1e-13)
    of_slopes = plain.gradients_of_slopes(theta)
    assert (of_slopes is None) == (plain.kernels.program.slopes_kept is None)
    if of_slopes is not None:
        np.testing.assert_allclose(of_slopes, gradients, rtol=1e-11, atol=1e-13)
    if not plain.kernels.program.has_hessian:
        return
    gradient, hessian, meat = plain.derivatives(theta)
    np.testing.assert_allclose(gradient, gradients.sum(axis=0), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(meat, gradients.T @ gradients, rtol=1e-10, atol=1e-12)
    left = plain.gradients_of_derivatives(theta)
    if left is not None:
        np.testing.assert_allclose(left, gradients, rtol=1e-11, atol=1e-13)
    moved = [plain.gradients(theta + e, N)[0] - plain.gradients(theta - e, N)[0] for e in steps]
    np.testing.assert_allclose(hessian, np.array(moved) / (2 * h), rtol=1e-6, atol=1e-7)


@pytest.mark.in_turn
@pytest.mark.parametrize("case", CASES)
def test_what_a_statistic_gives_belongs_together(case):
    loss, features, target, method, which, kinds = CASES[case]
    corrected = sd.debias(loss, sd.Release(features, target, fit_intercept=True), **method)
    correction = dataclasses.replace(corrected.at(3), **which)
    program = correction.program
    assert kinds <= {type(statistic) for statistic in program.statistics}
    rng = np.random.default_rng(0)
    X, y = data_of(program, rng)
    plain = Plain(correction.kernels, correction.noise, X, y, rng.uniform(0.5, 2.0, N))
    check(plain, rng.uniform(-0.5, 0.5, program.number_of_parameters))


@pytest.mark.in_turn
@pytest.mark.parametrize("most", [1, 6])
def test_it_does_not_matter_which_columns_of_categories_are_taken_together(most):
    """One by one, in pairs or all together: of more records than a part has, and of a target with a table."""
    loss = sd.Loss(sp.log(1 + sp.exp(U * (Y + 1) / 3)) + U**2 / 9, score=U, target=Y, target_values=(0, 1, 2))
    features = {"a": LETTERS, "b": COIN, "c": MAYBE, "d": KNOWN}
    corrected = sd.debias(
        loss,
        sd.Release(features, codes(3), fit_intercept=True),
        method="surrogate",
        radius=1.0,
        score_variance=0.1,
        n=50,
    )
    correction, rng, n = corrected.at(4), np.random.default_rng(0), PART + 13
    program = correction.program
    (products,) = program.having(CategoryProducts)
    X, y = data_of(program, rng, n)
    theta, weights = rng.uniform(-0.5, 0.5, program.number_of_parameters), rng.uniform(0.5, 2.0, n)

    def found(most):
        own = dataclasses.replace(products, most_together=most)
        others = tuple(own if one is products else one for one in program.statistics)
        plain = Plain(Kernels(dataclasses.replace(program, statistics=others)), correction.noise, X, y, weights)
        gradients = plain.gradients_of_derivatives(theta)
        return len(own.groups), (
            plain.losses(theta),
            plain.gradients(theta, n)[0],
            *plain.derivatives(theta),
            gradients,
        )

    groups, wanted = found(18)
    apart, others = found(most)
    assert (groups, apart) == (1, 3 if most == 1 else 2)
    np.testing.assert_allclose(wanted[1], wanted[-1].sum(axis=0), rtol=1e-11, atol=1e-12)
    for one, other in zip(others, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("name", "function"), [("mean_gradient", "accumulate"), ("mean_derivatives", "kernel")])
def test_a_loop_over_a_part_reads_nothing_but_what_is_kept_of_it(name, function):
    """The compiler asks of each place that is written if it is one that is read, and gives up where these are many."""
    loss, features, target, method, which, _ = CASES["products, records' own"]
    corrected = sd.debias(loss, sd.Release(features, target, fit_intercept=True), **method)
    correction = corrected.at(3) if name == "mean_derivatives" else dataclasses.replace(corrected.at(3), **which)
    text = correction.kernels.source(name, weighted=True).text
    loops = re.split(r"\n +for n in range\(", text[text.index(f"def {function}(") :])
    (own,) = (loop for loop in loops if "wave(" in loop)
    lines = own.split("\n")
    inside = [line for line in lines[1:] if line.startswith(re.match(" +", lines[1])[0])]
    read = set(re.findall(r"\b(\w+)\[", "\n".join(inside)))
    assert read == {"kept"}


@dataclasses.dataclass(frozen=True)
class SquaredLength(Statistic):
    """The squared length of theta: a statistic that the library does not have."""

    length: sp.Symbol

    @property
    def symbols(self):
        return (self.length,)

    def share(self, at):
        loop = f"for j in range({at.columns.number_of_parameters}):"
        return Share(
            {self.length: "length"},
            before=["length = 0.0", loop, "    length += theta[j]*theta[j]"],
            assemble=[loop, f"    gradient[j] += 2.0*{at.summed(0)}*theta[j]"],
            second=[loop, f"    out[j, j] += 2.0*first[{at.symbol}]"],
        )

    def jacobian(self, at, into):
        size = at.columns.number_of_parameters
        return [f"for j in range({size}):", f"    {into}[{at.symbol}, j] += 2.0*theta[j]"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_new_statistic_is_a_new_class(number):
    """Nothing else knows of it, wherever it stands among the others."""
    r, s = sp.symbols("r s", positive=True)
    statistics = [NormalNoise((s,)), Constants("target", sp.symbols("t c"))]
    statistics.insert(number, SquaredLength(r))
    program = ScoreProgram(
        sp.exp(-U * Y / 2 - s / 8) + U * r**2 + r * s, Y, ScoreColumns((U,), (0, 1), 3, 2), tuple(statistics)
    )
    rng = np.random.default_rng(0)
    theta = np.array([0.4, -0.3, 0.2])
    noise = program.layout.vector({"covariance": np.array([0.2, 0.1])})
    plain = Plain(Kernels(program), noise, rng.uniform(-1, 1, (N, 2)), np.ones(N), np.ones(N))
    u, length, variance = plain.X @ theta[:2] + theta[2], theta @ theta, 0.2 * 0.16 + 0.1 * 0.09
    wanted = np.exp(-u / 2 - variance / 8) + u * length**2 + length * variance
    np.testing.assert_allclose(plain.losses(theta), wanted, rtol=1e-13)
    check(plain, theta)

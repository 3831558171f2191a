"""Hypothesis strategies: losses of the grammar, releases of every kind of noise, and data that fit them."""

import sympy as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import symdebias as sd

U, Y = sp.symbols("u y", real=True)

numbers = st.fractions(min_value=-3, max_value=3, max_denominator=6).map(
    lambda value: sp.Rational(value.numerator, value.denominator)
)
sizes = st.fractions(min_value="1/4", max_value=2, max_denominator=6).map(
    lambda value: sp.Rational(value.numerator, value.denominator)
)
arguments = st.sampled_from([U, U - Y, U * Y, 2 * U + 1, U / 3 - Y])


@st.composite
def entire_terms(draw, of=arguments):
    """Return a function of the score whose correction under normal noise has a closed form."""
    at, rate = draw(of), draw(sizes)
    power = at ** draw(st.integers(0, 5))
    return draw(
        st.sampled_from([power, sp.exp(rate * at), power * sp.sin(rate * at), sp.cos(rate * at), sp.erf(at / 4)])
    )


@st.composite
def terms(draw, of=arguments):
    """Return a function of the score, smooth or with a kink, with a correction or without."""
    at, rate = draw(of), draw(sizes)
    return draw(
        st.one_of(
            entire_terms(of),
            st.sampled_from([
                sp.log(1 + sp.exp(at)), sp.log(1 + at**2), 1 / (rate + at**2), sp.Abs(at - rate), sp.sqrt(rate + at**2),
                sp.Max(0, rate - at) ** 2, sp.tanh(at), sp.asinh(at), sp.exp(-(at**2) * rate / 4),
                sp.exp(-sp.exp(at / 2)),
                sp.Piecewise((at**2 / 2, sp.Abs(at) <= rate), (rate * sp.Abs(at) - rate**2 / 2, True)),
            ]),
        )
    )  # fmt: skip


def expressions(of=terms(), most=3):  # noqa: B008  (a strategy is immutable)
    """Return sums of so many terms with coefficients; each depends on the score."""
    summands = st.lists(st.tuples(numbers.filter(bool), of), min_size=1, max_size=most)
    added = summands.map(lambda pairs: sp.Add(*(number * term for number, term in pairs)))
    return added.filter(lambda expression: U in expression.free_symbols)


scales = st.floats(0.05, 1.0)
budgets = st.floats(0.1, 8.0)
names = st.text(st.characters(categories=["L", "Nd", "So"]), min_size=1, max_size=12)


@st.composite
def mechanisms(draw):
    """Return a mechanism of one column: of numbers or of categories, with a guarantee or of known noise."""
    low = draw(st.integers(-5, 5))
    bounds = (low, low + draw(st.integers(1, 6)))
    categories = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    return draw(
        st.one_of(
            st.builds(sd.GaussianMechanism.from_scale, scales),
            st.builds(sd.LaplaceMechanism.from_scale, scales),
            st.builds(sd.LaplaceMechanism, epsilon=budgets, bounds=st.just(bounds)),
            st.builds(sd.DiscreteLaplaceMechanism, epsilon=budgets, bounds=st.just(bounds)),
            st.builds(sd.StaircaseMechanism, epsilon=budgets, bounds=st.just(bounds)),
            st.builds(sd.GaussianMechanism, epsilon=budgets, delta=st.just(1e-6), radius=st.floats(0.5, 3.0)),
            st.builds(sd.RandomizedResponse, budgets),
            st.builds(sd.RandomizedResponse, budgets, categories=st.just(tuple(categories))),
        )
    )


@st.composite
def releases(draw):
    """Return a release of one to four named columns, each under a mechanism of its own, and a target or none."""
    columns = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    target = st.one_of(st.none(), st.builds(sd.RandomizedResponse, budgets), st.builds(
        sd.LaplaceMechanism, epsilon=budgets, bounds=st.just((-1.0, 1.0))
    ))  # fmt: skip
    free = draw(st.integers(0, max(0, len(columns) - 1)))
    return sd.Release(
        features={name: draw(mechanisms()) for name in columns[free:]},
        noiseless=tuple(columns[:free]),
        target=draw(target),
        fit_intercept=draw(st.booleans()),
    )


@st.composite
def records(draw, release):
    """Return records (X, y) that a release may be given: categories as codes, counts as whole numbers."""
    count = draw(st.integers(1, 5))
    matrix = draw(arrays.arrays(float, (count, len(release.columns)), elements=st.floats(-5, 5, width=32)))
    noised = {names[0]: mechanism for names, mechanism in release.groups}
    for place, name in enumerate(release.columns):
        mechanism = noised.get(name)
        if isinstance(mechanism, sd.RandomizedResponse):
            codes = abs(matrix[:, place]).astype(int)
            values = mechanism.noise.inputs
            matrix[:, place] = [values[code % len(values)] for code in codes]
        elif isinstance(mechanism, sd.DiscreteLaplaceMechanism):
            matrix[:, place] = matrix[:, place].round()
    target = draw(arrays.arrays(float, count, elements=st.sampled_from([-1.0, 1.0])))
    return matrix, target

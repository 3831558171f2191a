"""What the symbols of a corrected loss stand for, in words beside its formula."""

import re

import sympy as sp

from symdebias.corrected import CorrectedLoss

# The names that derivations give to what they add, in words; underscores at the end are those of names that were taken.
_WORDS = tuple(
    (re.compile(pattern + "_*"), words)
    for pattern, words in (
        ("s", "the noise variance of the score"),
        ("s_[0-9]+", "the noise covariance of two scores, or the noise variance of one"),
        ("s[0-9]+", "the sum of theta squared over columns that were noised as one vector, each with the weight of its "
         "noise"),
        ("t", "the noise variance of the target"),
        ("c", "what the distance of a released label from the middle of the two is multiplied by"),
        ("r", "the reach: over columns, the largest product of a coefficient (of several scores, of their sum in an "
         "exponential of the loss) and the tail scale of the noise"),
        ("e[0-9]*_[0-9]+", "the weight of a derivative: over columns, products of squared coefficients and the scales "
         "of their noise"),
        ("q[0-9]*_[0-9]+", "what undoes the noise of columns in a power, an exponential or a wave of the score, by "
         "coefficients and noise"),
        ("k[ri]?[0-9]*_[0-9_]+i?", "the same for columns of categories, by what a record released in them"),
        ("h[0-9]+_[0-9]+", "what a point of a sphere tells of a power of the score"),
        ("[abc][0-9]+_[0-9]+", "a coefficient of the surrogate, designed for the records"),
        ("h", "the frequency of the slowest wave of the surrogate"),
        ("n_[0-9m_]+", "the weight of a target value, by the label that was released"),
        ("D_.+", "the noise variance of a feature, or the noise covariance of two"),
    )
)  # fmt: skip
# More names with one meaning are not listed.
_LISTED = 4


def meanings(corrected: CorrectedLoss) -> list[tuple[str, str]]:
    """Return the symbols of a corrected loss and of its conditions, those of one meaning together, with what it is.

    Parameters
    ----------
    corrected : CorrectedLoss
        One that has a formula: no unresolved surrogate.

    Returns
    -------
    list of (str, str)
        Scores and the target first; features and parameters by name speak for themselves.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> [name for name, _ in meanings(sd.debias(sd.losses.least_squares(), release))]
    ['u', 'y', 's']
    """
    loss = corrected.declared
    there = corrected.expression.free_symbols.union(*(one.free_symbols for one in corrected.conditions))
    scores = "the score of a released record" if len(loss.scores) == 1 else "a score of a released record"
    known: dict[sp.Symbol, str] = dict.fromkeys(loss.scores, scores)
    known[loss.target] = "the released target"
    own = {*known, *loss.features, *loss.parameters}
    for symbol in sorted(there - own, key=lambda symbol: _by_number(symbol.name)):
        if re.fullmatch(re.escape(loss.target.name) + "_hat_*", symbol.name):
            known[symbol] = "the unbiased estimate of the target, by the released one"
            continue
        found = [words for pattern, words in _WORDS if pattern.fullmatch(symbol.name)]
        if found:
            known[symbol] = found[0]
    alike: dict[str, list[str]] = {}
    for symbol, words in known.items():
        if symbol in there:
            alike.setdefault(words, []).append(symbol.name)
    return [
        (", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else ""), words)
        for words, names in alike.items()
    ]


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a key by which q_10 comes after q_2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split("([0-9]+)", name)]

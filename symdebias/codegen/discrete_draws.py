"""Texts of the kernels of noise in whole steps, of staircases and of labels, which `symdebias.codegen.draws` compiles.

Each takes words of random bits and writes what they stand for: the whole numbers that NumPy computes from the same
words, but for those in doubt, which are returned.
"""

import numpy as np

# Numbers that are computed at a time: their workspace stays in the nearest cache.
TILE = 512
# The end of a tile, and of a kernel: the places of what is in doubt are listed, as far as there is room.
LISTED = """        if any_doubt:
            for i in range(size):
                if doubts[i]:
                    if count < len(places):
                        places[count] = start + i
                    count += 1
    return count
"""


def remainder(word, span, inverse):  # type: ignore[no-untyped-def]
    """Return the remainder of the unsigned integer of a word by a whole number, at most 2^20, given with its inverse.

    Halves of 32 bits are divided one after the other: what is left of the upper one is below 2^20 and, with the lower
    one behind it, below 2^52. All of these are whole numbers that float64 holds, and so are their products with the
    quotients, which are off by 1 at most.
    """
    upper = np.float64((word >> 32) & 0xFFFFFFFF)
    rest = upper - np.floor(upper * inverse) * span
    rest += span if rest < 0.0 else 0.0
    rest -= span if rest >= span else 0.0
    both = rest * 4294967296.0 + np.float64(word & 0xFFFFFFFF)
    rest = both - np.floor(both * inverse) * span
    rest += span if rest < 0.0 else 0.0
    rest -= span if rest >= span else 0.0
    return rest


GEOMETRIC = f"""
def kernel(words, factor, slack, few, found, places):
    doubts = np.empty({TILE}, np.int64)
    count = 0
    for start in range(0, len(words), {TILE}):
        size = min({TILE}, len(words) - start)
        given, out = words[start:start + size], found[start:start + size]
        any_doubt = 0
        for i in range(size):
            word = given[i]
            length = exponential(word)*factor
            whole = np.floor(length)
            rest = length - whole
            doubt = np.int64(rest < slack) & np.int64(whole > 0.0)
            doubt |= np.int64(rest > 1.0 - slack) | np.int64((word & 0x7FFFFFFFFFFFFFFF) < few)
            doubts[i] = doubt
            any_doubt |= doubt
            out[i] = np.int64(whole)
{LISTED}"""

COINS = f"""
def kernel(words, chance, heads):
    doubt = np.int64(0)
    for i in range(len(words)):
        gap = np.float64(words[i] & 0x7FFFFFFFFFFFFFFF)*{2.0**-63!r} - chance
        heads[i] = np.uint8(gap < 0.0)
        doubt |= np.int64(abs(gap) < {2.0**-40!r})
    return doubt
"""

STAIRS = f"""
def kernel(words, stairs, lower, gamma, scale, rounding, found, places):
    doubts = np.empty({TILE}, np.int64)
    count, above = 0, 1.0 - gamma
    for start in range(0, len(words), {TILE}):
        size = min({TILE}, len(words) - start)
        given, out = words[start:start + size], found[start:start + size]
        stair, low = stairs[start:start + size], lower[start:start + size]
        any_doubt = 0
        for i in range(size):
            inside = (np.float64(given[i] & 0x7FFFFFFFFFFFFFFF) + 0.5)*{2.0**-63!r}
            # Both are computed, and which is used takes no branch.
            on_lower, on_upper = gamma + above*inside, gamma*inside
            place = on_lower if low[i] else on_upper
            length = scale*(np.float64(stair[i]) + place)
            whole = np.rint(length)
            doubt = np.int64(abs(length - whole) > 0.5 - scale*np.float64(stair[i] + 1)*rounding)
            doubts[i] = doubt
            any_doubt |= doubt
            sign = given[i] >> 63
            out[i] = (np.int64(whole) ^ sign) - sign
{LISTED}"""

WHOLE_STAIRS = f"""
def kernel(stairs, lower, below, above, signs, spans, begin, stair, pending, found):
    # What is pending has a word of each kind, and what is to be drawn again is left pending.
    sizes = np.empty({TILE}, np.int64)
    count = 0
    low_span, high_span = np.float64(spans[0]), np.float64(spans[1])
    low_inverse, high_inverse = 1.0/low_span, 1.0/high_span
    for start in range(0, len(stairs), {TILE}):
        size = min({TILE}, len(stairs) - start)
        given, low, sign = stairs[start:start + size], lower[start:start + size], signs[start:start + size]
        ones, others = below[start:start + size], above[start:start + size]
        for i in range(size):
            on_lower = begin + np.int64(remainder(ones[i], low_span, low_inverse))
            on_upper = np.int64(remainder(others[i], high_span, high_inverse))
            sizes[i] = given[i]*stair + (on_lower if low[i] else on_upper)
        for i in range(size):
            place, negative = pending[start + i], sign[i] >> 63
            found[place] = (sizes[i] ^ negative) - negative
            # Zero has no sign: it comes with one of them only.
            pending[count] = place
            count += np.int64(sizes[i] == 0) & -negative
    return count
"""

_TIED = """
    # A coin takes eight bits, and 45 of a word besides where these leave it open. Where there are fewer words than
    # such coins nothing is done, and how many there are is returned.
    first, rest = threshold
    tied = np.int64(0)
    for i in range(len(octets)):
        tied += np.int64(np.int64(octets[i]) == first)
    if tied > len(words):
        return tied
    tied = 0
"""

_HEADS = """
        count = 0
        for i in range(size):
            heads[i] = np.int64(np.int64(coins[i]) < first)
            ties[count] = i
            count += np.int64(np.int64(coins[i]) == first)
        for k in range(count):
            heads[ties[k]] = np.int64(((words[tied] >> 19) & 0x1FFFFFFFFFFF) < rest)
            tied += 1
"""

EXCHANGE = f"""
def kernel(octets, words, threshold, bits, numbers, values):
{_TIED}
    ties, heads = np.empty({TILE}, np.int64), np.empty({TILE}, np.int64)
    for start in range(0, len(octets), {TILE}):
        size = min({TILE}, len(octets) - start)
        coins, out, given = octets[start:start + size], values[start:start + size], numbers[start:start + size]
        for i in range(size):
            # Zero has two signs, and the sum with 0.0 one.
            given[i] += 0.0
{_HEADS}
        for i in range(size):
            # 0 or -1, of which all bits are set.
            out[i] ^= -heads[i] & bits
    return 0
"""

OTHER_LABELS = f"""
def kernel(octets, words, threshold, moves, known, labels, sent):
{_TIED}
    ties, heads = np.empty({TILE}, np.int64), np.empty({TILE}, np.int64)
    # One to count - 1 places further round the circle.
    labels_known, moved = np.int64(len(known)), np.empty({TILE}, np.int64)
    span = np.float64(labels_known - 1)
    inverse = 1.0/span
    for start in range(0, len(octets), {TILE}):
        size = min({TILE}, len(octets) - start)
        coins, given, old = octets[start:start + size], moves[start:start + size], labels[start:start + size]
{_HEADS}
        for i in range(size):
            place = np.int64(old[i]) + ((1 + np.int64(remainder(given[i], span, inverse))) & -heads[i])
            moved[i] = place - (labels_known & -np.int64(place >= labels_known))
        for i in range(size):
            sent[start + i] = known[moved[i]]
    return 0
"""

CODES = """
def kernel(values, codes, copied):
    others = np.int64(0)
    for i in range(len(values)):
        number = values[i]
        others += np.int64(not ((number >= 0.0) & (number < codes) & (number == np.floor(number))))
        copied[i] = number
    return others
"""

CLIP_GRID = f"""
def kernel(values, step, ends, places, clipped, outside):
    bad = np.int64(0)
    low, high = ends
    first, last = places
    for i in range(len(values)):
        number = values[i]
        quotient = number/step
        nearest = np.rint(quotient)
        size = abs(quotient)
        # As `Grid` says: on the grid up to 1 part in 1e12, or so far out that it cannot be told.
        tolerance = min(1e-12*max(1.0, size), 0.25)
        near = np.int64(size <= {2.0**52!r}) & np.int64(abs(quotient - nearest) <= tolerance)
        far = np.int64(not abs(nearest) <= {2.0**52!r})
        # NaN and infinity.
        bad |= np.int64(not abs(number) <= 1.7976931348623157e308) | (1 - (near | far))
        inside = number if number > low else low
        clipped[i] = inside if inside < high else high
        outside[i] = np.uint8(nearest < first) | np.uint8(nearest > last)
    return bad
"""

RELEASE_WHOLE = """
def kernel(values, noise, step, released):
    for i in range(len(values)):
        released[i] = step*np.float64(np.int64(np.rint(values[i]/step)) + noise[i])
    return 0
"""

"""The noise that Theorem 2 of the DP-LSSGD paper asks for, with the two conditions that it needs."""

import math
from dataclasses import dataclass

from scipy import optimize

from symdebias._domains import COUNT, DELTA, EPSILON, POSITIVE, Interval

_SHARE = Interval(0.0, 1.0, "neither", "Give the share of epsilon that the Rényi divergence takes, such as 0.5.")
# The bound on the Rényi divergence of a subset's sum was proved from this ratio of variance and squared sensitivity on.
_LEAST_RATIO = 1.5


@dataclass(frozen=True)
class PublishedNoise:
    """The noise of Theorem 2, and whether the theorem holds with it.

    Attributes
    ----------
    scale : float
        nu, the standard deviation of the noise on the mean gradient of a batch.
    share : float
        mu, the share of epsilon that the Rényi divergence takes.
    order : float
        alpha_R = log(1/delta)/((1 - mu) epsilon) + 1, the order of the Rényi divergence.
    ratio : float
        nu^2/(2 G/b)^2, the noise's variance over the squared sensitivity, which must be at least 1.5.
    largest_order : float
        log(n/(b (1 + ratio))), which alpha_R must not exceed.

    Examples
    --------
    >>> from symdebias.privacy import published_noise
    >>> noise = published_noise(epsilon=0.3, delta=1e-5, records=60_000, batch_size=128, steps=23_438)
    >>> noise.holds, round(noise.scale, 3)
    (False, 0.26)
    """

    scale: float
    share: float
    order: float
    ratio: float
    largest_order: float

    @property
    def holds(self) -> bool:
        """Whether both conditions hold."""
        return self.ratio >= _LEAST_RATIO and self.order <= self.largest_order

    def __str__(self) -> str:
        marks = {True: "holds", False: "fails"}
        return (
            f"nu = {self.scale:.6g} with mu = {self.share:.4g}\n"
            f"  nu^2/(2G/b)^2 = {self.ratio:.6g} >= {_LEAST_RATIO}: {marks[self.ratio >= _LEAST_RATIO]}\n"
            f"  alpha = {self.order:.6g} <= log(n/(b (1 + nu^2/(2G/b)^2))) = {self.largest_order:.6g}: "
            f"{marks[self.order <= self.largest_order]}"
        )


def published_noise(
    epsilon: float,
    delta: float,
    records: int,
    batch_size: int,
    steps: int,
    *,
    bound: float = 1.0,
    share: float | None = None,
) -> PublishedNoise:
    """Return the noise that Theorem 2 of Wang et al. 2019 adds to the mean gradient of each batch.

    nu^2 = 20 T alpha G^2/(mu n^2 epsilon), alpha = log(1/delta)/((1 - mu) epsilon) + 1

    Parameters
    ----------
    epsilon : float
        The budget, in [1e-6, 700].
    delta : float
        In (0, 1).
    records, batch_size, steps : int
        n, b <= n and T, at least 1. A batch is drawn without replacement, each step anew; neighbours have one record
        exchanged.
    bound : float
        G, the bound on the norm of a record's gradient, positive.
    share : float, optional
        mu in (0, 1). By default the one with the least noise among those for which the theorem holds, and where there
        is none the one with the least noise.

    Returns
    -------
    PublishedNoise
        The noise with both conditions, which may fail: ask `PublishedNoise.holds`.

    Raises
    ------
    TypeError, ValueError
        An argument is outside its range.

    Notes
    -----
    One step on a subset has the Rényi divergence 5 (b/n)^2 alpha (2G/b)^2/nu^2 of order alpha, where
    r = nu^2/(2G/b)^2 >= 1.5 and alpha <= log(n/(b (1 + r))); T of them are mu epsilon, which gives nu, and
    the order is the one at which the conversion to (epsilon, delta) costs (1 - mu) epsilon. So an order above
    log(1/delta)/epsilon has to be at most log(n/(2.5 b)): at delta 1e-5 and with a hundredth of the records in a batch
    the second condition fails below an epsilon of 3, whatever mu.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019 (arXiv 1906.12056), Theorem 2; Wang, Jayaraman, Evans & Gu 2019 (arXiv
    1910.13659), for the bound on subsets; Mironov 2017, Proposition 3 (conversion).

    Examples
    --------
    >>> print(published_noise(0.3, 1e-5, 60_000, 128, 23_450))
    nu = 0.25986 with mu = 0.5032
      nu^2/(2G/b)^2 = 276.591 >= 1.5: holds
      alpha = 78.2496 <= log(n/(b (1 + nu^2/(2G/b)^2))) = 0.523922: fails
    """
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    bound = POSITIVE.check("bound", bound)
    counts = {"records": records, "batch_size": batch_size, "steps": steps}
    n, b, T = (COUNT.check(name, value) for name, value in counts.items())
    if b > n:
        raise ValueError(f"batch_size={b} is more than the {n} records. Take smaller batches.")

    def noise(mu: float) -> PublishedNoise:
        order = -math.log(delta) / ((1 - mu) * epsilon) + 1
        variance = 20 * T * order * bound**2 / (mu * n**2 * epsilon)
        ratio = variance / (2 * bound / b) ** 2
        # Rounded up: the scale is a promise.
        scale = math.nextafter(math.sqrt(variance) * (1 + 1e-15), math.inf)
        return PublishedNoise(scale, mu, order, ratio, math.log(n / b) - math.log1p(ratio))

    if share is not None:
        return noise(_SHARE.check("share", share))
    # alpha/mu is convex in mu.
    least = optimize.minimize_scalar(
        lambda mu: noise(mu).order / mu, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12}
    ).x
    best = noise(float(least))
    if best.holds:
        return best
    held = [found for found in map(noise, (i / 4096 for i in range(1, 4096))) if found.holds]
    return min(held, key=lambda found: found.scale, default=best)

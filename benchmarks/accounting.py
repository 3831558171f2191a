"""What noise a budget needs over many steps on Poisson-sampled records, and how long finding it takes.

    python benchmarks/accounting.py [--records 60000] [--epochs 50] [--batch 128] [--budgets 0.1 0.3 1 3]

The noise multiplier by both accountants and under both adjacencies, at delta 1e-5, with the seconds of the calibration
and the share of the budget that the guarantee of its result uses.
"""

import argparse
import platform
import time

from symdebias.privacy import calibrate_noise_multiplier, subsampled_gaussian_guarantee
from symdebias.privacy.accounting import ACCOUNTANTS
from symdebias.privacy.guarantee import ADJACENCIES

DELTA = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    options = parser.parse_args()
    probability = options.batch / options.records
    steps = round(options.epochs / probability)
    # The first call imports the accountants.
    subsampled_gaussian_guarantee(1.0, 1.0, 1, DELTA, adjacency="add-remove")
    print(f"{platform.machine()}, Python {platform.python_version()}; probability {probability:.5f}, {steps:,} steps")
    print(f"{'epsilon':>8}  {'adjacency':<12}{'accountant':<12}{'multiplier':>11}{'budget used':>13}{'seconds':>9}")
    for budget in options.budgets:
        for adjacency in ADJACENCIES:
            for accountant in ACCOUNTANTS:
                kind = {"adjacency": adjacency, "accountant": accountant}
                began = time.perf_counter()
                found = calibrate_noise_multiplier(budget, DELTA, probability, steps, **kind)
                seconds = time.perf_counter() - began
                used = subsampled_gaussian_guarantee(found, probability, steps, DELTA, **kind).epsilon / budget
                print(f"{budget:>8g}  {adjacency:<12}{accountant:<12}{found:>11.4f}{used:>13.7f}{seconds:>9.2f}")


if __name__ == "__main__":
    main()

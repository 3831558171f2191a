"""Harnesses to run on a mechanism of one's own, for the correction and for the guarantee."""

from symdebias.checks.guarantee import GuaranteeCheck, check_guarantee
from symdebias.checks.unbiasedness import UnbiasednessCheck, check_unbiased

__all__ = ["GuaranteeCheck", "UnbiasednessCheck", "check_guarantee", "check_unbiased"]

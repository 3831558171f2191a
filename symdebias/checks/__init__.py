"""Checks to run on mechanisms, releases and solvers, of one's own too, and on released records."""

from typing import TYPE_CHECKING

from symdebias import _optional

if TYPE_CHECKING:
    from symdebias.checks.auditing import audit
    from symdebias.checks.guarantee import check_guarantee
    from symdebias.checks.oracle import SamplerComparison, compare_with_opendp, opendp_draws
    from symdebias.checks.records import RecordProbe, RecordsCheck, check_records
    from symdebias.checks.result import GuaranteeCheck, Probe
    from symdebias.checks.sampler import SamplerCheck
    from symdebias.checks.unbiasedness import UnbiasednessCheck, check_unbiased
else:  # solvers ask released records a question, and need nothing else of this room
    __getattr__ = _optional.on_demand(
        __name__,
        {
            "auditing": ("audit",),
            "guarantee": ("check_guarantee",),
            "oracle": ("SamplerComparison", "compare_with_opendp", "opendp_draws"),
            "records": ("RecordProbe", "RecordsCheck", "check_records"),
            "result": ("GuaranteeCheck", "Probe"),
            "sampler": ("SamplerCheck",),
            "unbiasedness": ("UnbiasednessCheck", "check_unbiased"),
        },
    )

__all__ = [
    "GuaranteeCheck",
    "Probe",
    "RecordProbe",
    "RecordsCheck",
    "SamplerCheck",
    "SamplerComparison",
    "UnbiasednessCheck",
    "audit",
    "check_guarantee",
    "check_records",
    "check_unbiased",
    "compare_with_opendp",
    "opendp_draws",
]

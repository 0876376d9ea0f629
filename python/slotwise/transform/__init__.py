"""Job transforms: statements that change ads, as an access point's JOB_TRANSFORM_<NAME> and ``transform-ads`` do.

The engine is Rust (crate ``config``, module ``transform``); this is its Python face. Rules: HTCondor manual, "Job
Transforms", and the condor_transform_ads page.
"""

from slotwise._native import Transformed, TransformedJobs
from slotwise.transform.job_transforms import knob_of, read_job_transform, rule_names
from slotwise.transform.rules import Row, Transforms, read_rules, rows

__all__ = [
    "Row",
    "Transformed",
    "TransformedJobs",
    "Transforms",
    "knob_of",
    "read_job_transform",
    "read_rules",
    "rows",
    "rule_names",
]

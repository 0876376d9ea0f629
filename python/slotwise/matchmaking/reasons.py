"""Labels for the words in which a cycle says why jobs got nothing, and which of them more slots do not help. Pure."""

from __future__ import annotations

OTHER = "other"
#: Labels of reasons, by how the negotiator's words for them begin.
_REASONS = {
    "no match found": "no_match",
    "concurrency limit": "concurrency_limit",
    "PREEMPTION_REQUIREMENTS": "preemption_requirements",
    "submitter limit": "submitter_limit",
    "submitter ceiling": "submitter_ceiling",
    "group quota": "group_quota",
    "a machine is reserved": "reserved",
    "its expressions take too long": "too_much_work",
    "its submitter's expressions": "too_much_work",
    "negotiation out of time": "out_of_time",
}
#: Reasons that have nothing to do with how many slots there are. A submitter's limit is a share of them, and grows.
LIMITS = frozenset({"concurrency_limit", "submitter_ceiling", "group_quota", "too_much_work"})


def reason_label(reason: str) -> str:
    """The label for a reason in words."""
    return next((label for begin, label in _REASONS.items() if reason.startswith(begin)), OTHER)

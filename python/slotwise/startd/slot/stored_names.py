"""The form in which values of the state machine are stored: in the journal and in recorded steps.

Both files outlive a startd, so a class or field that gets another name here keeps its stored one.
"""

from __future__ import annotations

#: Stored names of classes that have another name now.
_CLASSES = {
    "PolicyEval": "Facts",
    "StartBackfill": "StartFiller",
    "StopBackfill": "StopFiller",
    "BackfillStarted": "FillerStarted",
    "BackfillEnded": "FillerEnded",
    "Withheld": "Withheld",
}
#: The same of fields, by the class that they belong to.
_FIELDS = {("Claimed", "pending_cause"): "pledge", ("Claimed", "irrevocable"): "final"}


def stored_class(kind: type) -> str:
    """The name that values of a class are stored with."""
    return _CLASSES.get(kind.__name__, kind.__name__)


def stored_field(kind: type, name: str) -> str:
    """The name that a field of a class is stored with."""
    return _FIELDS.get((kind.__name__, name), name)

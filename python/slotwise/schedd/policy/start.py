"""START_VANILLA_UNIVERSE: which jobs may start now, and on which slots.

The expression sees four ads as HTCondor's does: ``JOB``, ``SLOT``, ``OWNER`` (name, JobsRunning, JobsIdle and JobsHeld
of the job's user) and ``SCHEDD``. The schedd's ad is also MY, and the job's TARGET. A job starts only where it is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slotwise.classad import ClassAd, ExprTree, SpecialValue

#: A scope; or a string or quoted name, which is skipped.
_SCOPED = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<![\w.])(SLOT|JOB|OWNER|SCHEDD|MY|TARGET)(?=\s*\.)""", re.IGNORECASE
)
#: The scopes as a request's Requirements know them.
_IN_REQUEST = {
    "slot": "TARGET",
    "job": "MY",
    "target": "MY",
    # Owner is an attribute of jobs already.
    "owner": "MY.START_OWNER",
    "schedd": "MY.START_SCHEDD",
    "my": "MY.START_SCHEDD",
}
_IDLE, _RUNNING, _HELD = (1,), (2, 6, 7), (5,)


class StartPolicy:
    """A parsed START_VANILLA_UNIVERSE; without an expression every job may start."""

    def __init__(self, expression: ExprTree | None) -> None:
        self.expression = expression
        text = _unquoted(str(expression)) if expression is not None else ""
        found = {scope.upper() for scope in re.findall(r"(?<![\w.])(\w+)\s*\.", text)}
        if expression is not None and expression.references().unbounded:
            found |= {"SLOT", "OWNER"}
        #: Whether it depends on the slot, and so is evaluated for each.
        self.of_slots = "SLOT" in found
        self._of_owner = "OWNER" in found
        self._in_request = _rescoped(str(expression)) if self.of_slots else ""

    def __bool__(self) -> bool:
        return self.expression is not None

    def may_start(
        self,
        job: ClassAd,
        schedd: Callable[[], ClassAd],
        owner: Callable[[], ClassAd],
        slot: ClassAd | None = None,
    ) -> bool:
        """Whether the job may start, on ``slot`` if given; undefined means no.

        Without a slot, whether it may start on some slot.
        """
        if self.expression is None:
            return True
        found = self.expression.eval(self._context(job, schedd(), owner, slot), job)
        if isinstance(found, (bool, int, float)) and not isinstance(found, SpecialValue):
            return bool(found)
        return slot is None and self.of_slots

    def constrain(self, request: ClassAd, schedd: Callable[[], ClassAd], owner: Callable[[], ClassAd]) -> None:
        """Restrict a request to slots on which the job may start."""
        if not self._in_request:
            return
        request["RequestConstraint"] = ExprTree(self._in_request)
        request["START_SCHEDD"] = schedd()
        if self._of_owner:
            request["START_OWNER"] = owner()
        former = request.lookup("Requirements")
        request["Requirements"] = ExprTree(f"RequestConstraint && ({former if former is not None else 'true'})")

    def _context(self, job: ClassAd, schedd: ClassAd, owner: Callable[[], ClassAd], slot: ClassAd | None) -> ClassAd:
        context = schedd.copy()
        context["SCHEDD"], context["JOB"] = schedd, job
        if self._of_owner:
            context["OWNER"] = owner()
        if slot is not None and self.of_slots:
            context["SLOT"] = slot
        return context


def owner_ad(user: str, counts: Sequence[int]) -> ClassAd:
    """The ``OWNER`` ad: a user and its number of jobs, from ``counts`` by JobStatus."""

    def number(states: Sequence[int]) -> int:
        return sum(counts[state] for state in states)

    running, idle, held = number(_RUNNING), number(_IDLE), number(_HELD)
    return ClassAd({"name": user, "JobsRunning": running, "JobsIdle": idle, "JobsHeld": held})


def _unquoted(text: str) -> str:
    return _SCOPED.sub(lambda found: "" if found[1] else found[0], text)


def _rescoped(text: str) -> str:
    return _SCOPED.sub(lambda found: found[1] or _IN_REQUEST[found[2].lower()], text)

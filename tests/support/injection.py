"""Faults: an exception at the n-th call of a function of some packages, while one kind of message is processed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: A submission is the affair of its client, and what fails then is refused.
_SUBMISSIONS = tuple(
    f"/submission/{name}.py"
    for name in ("transaction", "admission", "underway", "submissions", "limits", "cluster_ids", "new_rows", "entry")
)


class InjectedError(Exception):
    """Raised where a test wants a failure."""


class Injection:
    """Counts the calls inside of a wrapped function and raises at the one that was chosen.

    :param where: part of the names of files; only calls of functions of these count.
    :param besides: parts of names of files and functions that do not count.
    """

    def __init__(
        self,
        where: str = "/slotwise/schedd/",
        besides: tuple[str, ...] = ("Deciding.", *_SUBMISSIONS),
    ) -> None:
        self._where, self._besides = where, besides
        #: The call that fails, from 0; None: none does.
        self.at: int | None = None
        #: Calls counted in the execution that is going on, and most of all so far.
        self.calls = self.most = 0
        #: Where the fault was raised, or "".
        self.raised = ""
        self._known: dict[CodeType, bool] = {}

    def wrapped(self, function: Callable[..., Any], when: Callable[..., bool]) -> Callable[..., Any]:
        """``function``, in which a fault is raised; only executions whose arguments ``when`` accepts count."""

        def call(*args: Any, **named: Any) -> Any:
            if (self.at is None and self.raised) or not when(*args, **named):
                return function(*args, **named)
            self.calls = 0
            former = sys.gettrace()
            sys.settrace(self._trace)
            try:
                return function(*args, **named)
            finally:
                sys.settrace(former)
                self.most = max(self.most, self.calls)

        return call

    def arm(self, at: int) -> None:
        """Let the call number ``at`` fail, once."""
        self.at, self.raised = at, ""

    def _trace(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and self._counts(frame.f_code):
            self.calls += 1
            if self.at is not None and self.calls > self.at:
                self.at = None
                code = frame.f_code
                self.raised = f"{code.co_filename.rpartition('/')[2]}:{code.co_qualname}"
                raise InjectedError(f"at the entry of {code.co_qualname}")

    def _counts(self, code: CodeType) -> bool:
        found = self._known.get(code)
        if found is None:
            name = f"{code.co_filename} {code.co_qualname}"
            found = self._known[code] = self._where in name and not any(part in name for part in self._besides)
        return found

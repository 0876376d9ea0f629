"""The knobs of the starter's hooks: which program holds for which job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slotwise.starter.arguments import split_new

BEFORE_TRANSFER, PREPARE = "PREPARE_JOB_BEFORE_TRANSFER", "PREPARE_JOB"
UPDATE, EXIT = "UPDATE_JOB_INFO", "JOB_EXIT"
#: How long the hook at a job's end may take unless <KEYWORD>_HOOK_JOB_EXIT_TIMEOUT says otherwise, seconds.
EXIT_S = 30.0


@dataclass(frozen=True)
class HookRules:
    """``override`` and ``default``: keywords; ``knobs``: all ``<KEYWORD>_HOOK_<NAME>`` in capitals."""

    override: str = ""
    default: str = ""
    knobs: Mapping[str, str] = field(default_factory=dict)

    def keyword(self, wanted: object) -> str:
        """The keyword for a job that wants ``wanted``."""
        if self.override:
            return self.override.upper()
        if isinstance(wanted, str) and any(name.startswith(f"{wanted.upper()}_HOOK_") for name in self.knobs):
            return wanted.upper()
        return self.default.upper()

    @property
    def any_before_transfer(self) -> bool:
        """Whether a job may have a hook that runs before its files are moved."""
        return any(name.endswith(f"_HOOK_{BEFORE_TRANSFER}") and path for name, path in self.knobs.items())

    def path(self, wanted: object, hook: str) -> str:
        """The program of a hook; empty when there is none."""
        return self.knobs.get(f"{self.keyword(wanted)}_HOOK_{hook}", "") if self.knobs else ""

    def all(self, wanted: object) -> Iterator[tuple[str, str]]:
        """Knobs and programs of all hooks of a job that wants ``wanted``."""
        for hook in (BEFORE_TRANSFER, PREPARE, UPDATE, EXIT):
            if path := self.path(wanted, hook):
                yield f"{self.keyword(wanted)}_HOOK_{hook}", path

    def arguments(self, wanted: object) -> tuple[str, ...]:
        """<KEYWORD>_HOOK_PREPARE_JOB_ARGS: what both hooks that prepare a job get as arguments.

        :raises UsageError: when a quote is left open.
        """
        return tuple(split_new(self.path(wanted, f"{PREPARE}_ARGS")))

    def exit_timeout_s(self, wanted: object) -> float:
        """How long the hook at the job's end may take."""
        with contextlib.suppress(ValueError):
            return float(self.knobs.get(f"{self.keyword(wanted)}_HOOK_JOB_EXIT_TIMEOUT", EXIT_S))
        return EXIT_S

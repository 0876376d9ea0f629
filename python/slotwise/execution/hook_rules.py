"""The knobs of the hooks of starter and shadow: which program holds for which job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from slotwise.execution.arguments import split_new

BEFORE_TRANSFER, PREPARE = "PREPARE_JOB_BEFORE_TRANSFER", "PREPARE_JOB"
UPDATE, EXIT = "UPDATE_JOB_INFO", "JOB_EXIT"
#: The shadow's.
SHADOW_PREPARE = "SHADOW_PREPARE_JOB"
#: The starter's hooks that are programs: <KEYWORD>_HOOK_<NAME>.
HOOKS = (BEFORE_TRANSFER, PREPARE, UPDATE, EXIT)


class HookRules(Struct, frozen=True):
    """``override`` and ``default``: keywords; ``programs``: paths by ``<KEYWORD>_HOOK_<NAME>`` in capitals;
    ``exit_timeouts_s``: by keyword in capitals, how long its hook at the job's end may take (seconds)."""

    override: str = ""
    default: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    exit_timeouts_s: Mapping[str, float] = field(default_factory=dict)
    #: <KEYWORD>_HOOK_PREPARE_JOB_ARGS, of the shadow <KEYWORD>_HOOK_SHADOW_PREPARE_JOB_ARGS, by keyword in capitals.
    prepare_arguments: Mapping[str, str] = field(default_factory=dict)

    def keyword(self, wanted: object) -> str:
        """The keyword for a job that wants ``wanted``."""
        if self.override:
            return self.override.upper()
        if isinstance(wanted, str) and any(name.startswith(f"{wanted.upper()}_HOOK_") for name in self.programs):
            return wanted.upper()
        return self.default.upper()

    @property
    def any_before_transfer(self) -> bool:
        """Whether a job may have a hook that runs before its files are moved."""
        return any(name.endswith(f"_HOOK_{BEFORE_TRANSFER}") and path for name, path in self.programs.items())

    def path(self, wanted: object, hook: str) -> str:
        """The program of a hook; empty when there is none."""
        return self.programs.get(f"{self.keyword(wanted)}_HOOK_{hook}", "") if self.programs else ""

    def all(self, wanted: object) -> Iterator[tuple[str, str]]:
        """Knobs and programs of all hooks of a job that wants ``wanted``."""
        for hook in HOOKS:
            if path := self.path(wanted, hook):
                yield f"{self.keyword(wanted)}_HOOK_{hook}", path

    def arguments(self, wanted: object) -> tuple[str, ...]:
        """What hooks that prepare a job get as arguments; both of the starter's get the same.

        :raises UsageError: when a quote is left open.
        """
        return tuple(split_new(self.prepare_arguments.get(self.keyword(wanted), "")))

    def exit_timeout_s(self, wanted: object) -> float:
        """How long the hook at the job's end may take."""
        return self.exit_timeouts_s[self.keyword(wanted)]

"""Which knobs a caller may set remotely: the lists SETTABLE_ATTRS_<LEVEL>.

Each list applies to callers that have its level. A knob that is on no list of the caller's levels may not be set.
No knob is exempt: ``SETTABLE_ATTRS_CONFIG = *`` opens the lists of users and hosts as well, as in HTCondor. Manual,
"Access Levels and the Settable Attributes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from slotwise.authorization.entries import wildcard, words
from slotwise.authorization.policy import LEVELS, Decision

if TYPE_CHECKING:
    from slotwise.config import Config


class Listed(Struct, frozen=True):
    """One list. ``origin``: file and line where it is set."""

    knob: str
    names: tuple[str, ...]
    origin: str


class Settable(Struct, frozen=True):
    """The lists of a daemon, by level."""

    lists: Mapping[str, Listed] = field(default_factory=dict)

    def decide(self, decisions: Mapping[str, Decision], name: str) -> Decision:
        """Whether a caller with these ``decisions``, level by level, may set the knob ``name``."""
        for level, listed in self.lists.items():
            entry = next((entry for entry in listed.names if wildcard(entry)(name)), None)
            if entry is not None and decisions[level].allowed:
                reason = f"{listed.knob} has `{entry}` ({listed.origin})"
                return Decision(True, level, reason, listed.knob, entry, listed.origin)
        return self._refusal(decisions, name)

    def _refusal(self, decisions: Mapping[str, Decision], name: str) -> Decision:
        """Why not: the level that the caller lacks if a list has the knob, else the lists that lack it."""
        for level, listed in self.lists.items():
            entry = next((entry for entry in listed.names if wildcard(entry)(name)), None)
            if entry is not None:
                lacking = f"{listed.knob} has `{entry}` ({listed.origin}), and {level} is not allowed"
                return Decision(
                    False, level, f"{lacking}: {decisions[level].reason}", listed.knob, entry, listed.origin
                )
        having = [listed for level, listed in self.lists.items() if decisions[level].allowed]
        if having:
            told = ", ".join(f"{listed.knob} ({listed.origin})" for listed in having)
            return Decision(False, "CONFIG", f"{told} does not have {name}", having[0].knob, "", having[0].origin)
        unset = "no SETTABLE_ATTRS list of a level that the caller has is set"
        return Decision(False, "CONFIG", unset)


def read(config: Config) -> Settable:
    """The lists of a configuration for the subsystem that reads it (``SCHEDD.SETTABLE_ATTRS_CONFIG``)."""
    lists = {}
    for level in ("CONFIG", *(level for level in LEVELS if level != "CONFIG")):
        knob = f"SETTABLE_ATTRS_{level}"
        names = tuple(words(config.get_str(knob)))
        if names:
            lists[level] = Listed(config.entry_name(knob) or knob, names, str(config.origin(knob) or ""))
    return Settable(lists)

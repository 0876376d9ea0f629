"""Nouns that HTCondor's command has and Slotwise has no counterpart of: each is refused with what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.htcondor.verb import Call, Noun, Verb
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace


def _noun(text: str, why: str, remedy: str, *verbs: str) -> Noun:
    def refuse(options: Namespace, call: Call) -> None:
        raise UsageError(why, hint=remedy)

    return Noun(text, {name: Verb("Not available", refuse, None) for name in verbs})


def refusing(remedy: str) -> Verb:
    """A verb that is not there, of a noun that is."""

    def refuse(options: Namespace, call: Call) -> None:
        raise UsageError("Slotwise has not this verb", hint=remedy)

    return Verb("Not available", refuse, None)


OCU = _noun(
    "Owner Capacity Units; not available",
    "Slotwise has no owner capacity units",
    "group quotas (GROUP_QUOTA_<group>) and slots' RANK give owners their share",
    *("create", "query", "status", "remove"),
)
ANNEX = _noun(
    "HPC annexes; not available",
    "Slotwise has no annexes",
    "start its execution points in jobs of the other system, with COLLECTOR_HOST and a token of this pool",
    *("create", "add", "status", "shutdown", "systems", "login", "setup", "checksetup"),
)

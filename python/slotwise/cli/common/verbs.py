"""Commands that are divided into verbs (``slotwise config val``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

#: The verbs of a command.
Verbs = Mapping[str, "Callable[[list[str], Invocation], int]"]


def run(command: str, verbs: Verbs, args: list[str], inv: Invocation) -> int:
    """Run the verb that ``args`` begin with; its exit status. Without one the usage is printed, with status 2.

    :raises UsageError: there is no such verb.
    """
    names = ", ".join(verbs)
    if not args or args[0] in ("-h", "-help", "--help"):
        inv.out(f"usage: slotwise {command} VERB ...; verbs are {names}; `slotwise {command} VERB --help` explains one")
        return 0 if args else 2
    verb = verbs.get(args[0])
    if verb is None:
        raise UsageError(f"{command} has no verb {args[0]!r}", hint=f"verbs are {names}")
    return verb(args[1:], inv)

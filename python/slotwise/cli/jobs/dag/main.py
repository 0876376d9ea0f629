"""``slotwise dag``: DAGs of jobs, by verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.jobs.dag import check, submit
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

_VERBS = {"check": check.main, "submit": submit.main}


def main(args: list[str], inv: Invocation) -> int:
    """Run one of the verbs."""
    verbs = ", ".join(_VERBS)
    if not args or args[0] in ("-h", "-help", "--help"):
        inv.out(f"usage: slotwise dag VERB ...; verbs are {verbs}; `slotwise dag VERB --help` explains one")
        return 0 if args else 2
    verb = _VERBS.get(args[0])
    if verb is None:
        raise UsageError(f"dag has no verb {args[0]!r}", hint=f"verbs are {verbs}")
    return verb(args[1:], inv)

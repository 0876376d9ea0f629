"""``slotwise upgrade-check``: refused with the reason, as the checks are about HTCondor's own installation.

`docs/decisions/0019-no-upgrade-check.md` has what they look at.
"""

from __future__ import annotations

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import SlotwiseError

USAGE = """usage: slotwise upgrade-check
  Not available: HTCondor's command checks an installation of HTCondor before its next major version.
  `slotwise config check` says what Slotwise reads otherwise in a configuration of HTCondor."""


def main(args: list[str], inv: Invocation) -> int:
    """Refuse, whatever the arguments are.

    :raises SlotwiseError: always.
    """
    if args in (["-h"], ["-help"], ["--help"]):
        inv.out(USAGE)
        return 0
    raise SlotwiseError(
        "there is nothing to check here: the checks are about installations of HTCondor before its next major version",
        hint="`slotwise config check` says what Slotwise reads otherwise in a configuration of HTCondor",
    )

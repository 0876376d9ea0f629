"""The command ``htcondor``."""

from __future__ import annotations

import sys

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch


def main() -> int:
    """Run the command with the words of this process; returns its exit status."""
    return dispatch(["htcondor", *sys.argv[1:]], Invocation.of_process())

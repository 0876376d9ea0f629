"""`python -m slotwise`: the same as the `slotwise` command."""

import sys

from slotwise.cli.main import run

sys.exit(run())

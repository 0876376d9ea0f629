"""What commands do not load: it costs each of them more than their own modules do."""

from __future__ import annotations

import subprocess
import sys

from slotwise.cli.registry import COMMANDS


def test_no_command_loads_what_only_signs_tokens() -> None:
    modules = sorted({entry.module.partition(":")[0] for entry in COMMANDS.values()})
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "slotwise.cli.jobs.q" in loaded and "slotwise.wire.keys" in loaded
    assert not loaded & {"jwt", "cryptography"}

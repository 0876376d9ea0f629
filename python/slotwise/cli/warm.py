"""What the schedd's warm zygote has loaded: the runner of DAGs, which goes on in its forks.

A runner of its own interpreter has 26 MB that no other process has, almost all of it code and what imports have made of
it; a fork has 10 MB. The zygote itself imports and forks, and does nothing else: it knows no DAG and no user, has no
connection and no thread.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

from slotwise._native import keeper_zygote
from slotwise.cli.jobs.dag import run
from slotwise.cli.main import run as run_command

#: What a runner needs beside its own command.
_LOADED = (run,)


def serve(descriptor: int) -> None:
    """Fork keepers, and in them runners. Does not return."""
    assert _LOADED and threading.active_count() == 1
    gc.collect()
    gc.freeze()  # else the first collection of each fork writes to all of it
    keeper_zygote(descriptor, _run)


def _run(args: Sequence[bytes], env: Sequence[bytes]) -> int:
    """Run as the program that was called so: the process has the rights, the directory and the files of its job."""
    os.environ.clear()
    for entry in env:
        name, _, value = entry.partition(b"=")
        if name:
            os.environb[name] = value
    time.tzset()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as an interpreter's start has it
    sys.argv = ["slotwise-py", "condor_dagman", *map(os.fsdecode, args[1:])]
    return run_command()

"""Programs of HTCondor that configurations name and that Slotwise has as commands.

``use feature : GPUs`` runs ``$(LIBEXEC)/condor_gpu_discovery``, and FILETRANSFER_PLUGINS has
``$(LIBEXEC)/curl_plugin`` by default. Where HTCondor is installed there, that one runs; where it is not, ours does.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import PurePath

#: The subcommand for each program.
_COMMANDS = {"condor_gpu_discovery": "gpu-discovery", "condor_gpu_utilization": "gpu-utilization"}

#: The module for each that is no command.
_MODULES = {"curl_plugin": "slotwise.curl_plugin"}

#: What ours can and HTCondor's cannot: tell which devices do not answer.
_MORE = {"gpu-discovery": ("-check",)}


def to_run(words: Sequence[str]) -> list[str]:
    """The words of a command line, with our own command in the place of a program of HTCondor that is not installed."""
    program, *rest = words
    name = PurePath(program).name
    if (name not in _COMMANDS and name not in _MODULES) or shutil.which(program) is not None:
        return list(words)
    if name in _MODULES:
        return [sys.executable, "-sP", "-m", _MODULES[name], *rest]
    command = _COMMANDS[name]
    return [sys.executable, "-m", "slotwise", command, *rest, *_MORE.get(command, ())]

"""What transfer plugins report of the files that they move: told to the access point, and appended to a file.

The access point keeps it in its history of runs; the file is FILE_TRANSFER_STATS_LOG.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.classad.values import Value
from slotwise.daemon.privileges import own_files
from slotwise.transfer import safe_open

_log = logging.getLogger(__name__)
#: Beyond this size the file is put aside as ``.old``, in bytes.
_FILE_MOST = 5_000_000
#: Most bytes of the results of one transfer that the access point is told.
_TOLD_MOST = 1024 * 1024
#: Attributes of a plugin's answer that leave the host, with their types; the rest is the plugin's own.
_ATTRIBUTES: Mapping[str, type] = {
    "TransferSuccess": bool,
    "TransferError": str,
    "TransferProtocol": str,
    "TransferType": str,
    "TransferFileName": str,
    "TransferFileBytes": int,
    "TransferTotalBytes": int,
    "TransferStartTime": int,
    "TransferEndTime": int,
    "ConnectionTimeSeconds": float,
    "TransferUrl": str,
    "TransferErrorData": list,
    "DeveloperData": ClassAd,
    "TransferData": list,
}
_ERROR_ATTRIBUTES: Mapping[str, type] = {
    "IntermediateServerErrorType": str,
    "IntermediateServer": str,
    "ErrorType": str,
    "PluginVersion": str,
    "PluginLaunched": bool,
    "FailedName": str,
    "FailureType": str,
    "FailedServer": str,
    "ShouldRefresh": bool,
    "ErrorCode": int,
    "ErrorString": str,
    "Retryable": int,
    "DeveloperData": ClassAd,
}


class TransferClass(IntEnum):
    """Which transfer of a run a plugin was called for, by HTCondor's numbers."""

    INPUT = 1
    OUTPUT = 2
    CHECKPOINT = 3


class CallResult(IntEnum):
    """How a call of a plugin ended, by HTCondor's numbers."""

    SUCCESS = 0
    ERROR = 1
    TIMED_OUT = 3


class PluginResults:
    """The results of the plugins of one transfer of a run."""

    def __init__(self, transfer: TransferClass) -> None:
        self._transfer = transfer
        self._ads: list[ClassAd] = []
        self._size = 0
        #: An ad of each file, as FILE_TRANSFER_STATS_LOG has it.
        self.files: list[ClassAd] = []

    def add_call(self, program: str, method: str, status: int, seconds: float, *, timed_out: bool) -> None:
        """Record a call of a plugin: its exit ``status`` (below 0: a signal), and how long it took."""
        result = CallResult.TIMED_OUT if timed_out else CallResult.ERROR if status else CallResult.SUCCESS
        self._add(
            {
                "TransferClass": int(self._transfer),
                "PluginBasename": Path(program).name,
                "Schemes": method,
                "Result": int(result),
                "DurationInSeconds": int(seconds),
                "ExitBySignal": status < 0,
                **({"ExitSignal": -status} if status < 0 else {"ExitCode": status}),
            }
        )

    def add_file(self, answer: ClassAd, status: int) -> None:
        """Record what a plugin that ended with ``status`` says of one file."""
        found = _filtered(answer, _ATTRIBUTES)
        if isinstance(errors := found.get("TransferErrorData"), list):
            found["TransferErrorData"] = [_filtered(ad, _ERROR_ATTRIBUTES) for ad in errors if isinstance(ad, ClassAd)]
        self._add(found)
        exit_name = "PluginExitSignal" if status < 0 else "PluginExitCode"
        self.files.append(ClassAd({**answer, exit_name: abs(status)}))

    def _add(self, attributes: Mapping[str, Value]) -> None:
        ad = ClassAd(attributes)
        self._size += len(str(ad))
        if self._size <= _TOLD_MOST:
            self._ads.append(ad)

    def report(self) -> dict[str, Value]:
        """The attribute that tells the access point; empty without any result."""
        if not self._ads:
            return {}
        return {f"{self._transfer.name.capitalize()}PluginResultList": list(self._ads)}


def _filtered(ad: ClassAd, allowed: Mapping[str, type]) -> dict[str, Value]:
    """The attributes that are allowed, where their values have the right type."""
    found: dict[str, Value] = {}
    for name, kind in allowed.items():
        value = ad.get(name)
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            found[name] = value
    return found


def append(path: str, ads: list[ClassAd], job: ClassAd) -> None:
    """Append ads of files to FILE_TRANSFER_STATS_LOG, each with its job's id and owner; an error costs these ads.

    The file is the daemons' account's, as logs are: no link of that account leads to one of root's.
    """
    if not path or not ads:
        return
    whose = {f"Job{name}": job.lookup(name) for name in ("ClusterId", "ProcId", "Owner") if name in job}
    text = "".join(f"***\n{long_form(ClassAd({**ad, **whose}))}" for ad in ads)
    try:
        with own_files():
            with contextlib.suppress(FileNotFoundError):
                if Path(path).stat().st_size > _FILE_MOST:
                    Path(path).replace(f"{path}.old")
            descriptor = safe_open.regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        with open(descriptor, "ab") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        _log.warning("could not append to FILE_TRANSFER_STATS_LOG (%s): %s", path, error.strerror)

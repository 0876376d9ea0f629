"""The command's end of a visit to a running job, shared by `tail` and `ssh-to-job`."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Callable, Iterator

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed
from slotwise.errors import BusyError, UsageError
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

#: Where the job's schedd is.
PLACE = [Option("name", 1, 1), Option("pool", 1, 1), Option("debug", 1)]
_RETRY_S = 0.5


def job_named(word: str) -> str:
    """``12`` is ``12.0``.

    :raises UsageError: when it is not a job id.
    """
    if not re.fullmatch(r"\d+(\.\d+){0,2}", word):
        raise UsageError(f"{word!r} is not a job id", hint="cluster.proc, or a cluster for its first job")
    parts = word.split(".")
    return f"{parts[0]}.{parts[1] if len(parts) > 1 else 0}"


class Visit:
    """One visit: messages there and back. Closed by leaving the block."""

    def __init__(self, job: str, parsed: Parsed, inv: Invocation) -> None:
        self._job = job
        aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
        self._stub = aimed.stub(schedd_pb2_grpc.ScheddStub, "schedd")
        self._out: queue.SimpleQueue[schedd_pb2.JobVisit | None] = queue.SimpleQueue()
        self._call: grpc.Call | None = None

    def __enter__(self) -> Visit:
        self._call = self._stub.Visit(iter(self._out.get, None))
        return self

    def __exit__(self, *_: object) -> None:
        self._out.put(None)
        if self._call is not None:
            self._call.cancel()

    def say(self, message: schedd_pb2.JobVisit) -> None:
        """Send a message; the first one names the job."""
        message.job, self._job = self._job, ""
        self._out.put(message)

    def heard(self) -> Iterator[schedd_pb2.JobVisit]:
        """What the job's machine says.

        :raises SlotwiseError: when the visit is refused.
        """
        try:
            yield from self._call or ()
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None


def tried_again(parsed: Parsed, inv: Invocation, attempt: Callable[[], int]) -> int:
    """Do it; with ``-auto-retry`` again and again while the job does not run yet."""
    waiting = False
    while True:
        try:
            return attempt()
        except BusyError:
            if not parsed.has("auto-retry"):
                raise
            if not waiting:
                inv.err("Waiting for the job to run ...")
                waiting = True
            time.sleep(_RETRY_S)

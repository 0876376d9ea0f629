"""The command's end of a visit to a running job, shared by `tail` and `ssh-to-job`."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.late import told_late
from slotwise.cli.common.options import Option, Parsed
from slotwise.errors import BusyError, SlotwiseError, UsageError
from slotwise.model.job_id import NodeId
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

#: Where the job's schedd is.
PLACE = [Option("name", 1, 1), Option("pool", 1, 1), Option("debug", 1)]
_RETRY_S = 0.5
#: The most bytes of one message.
PIECE = 32 * 1024
#: Input that the job's machine has not taken yet, bytes.
_WINDOW = 256 * 1024


def job_named(word: str) -> str:
    """``12`` is ``12.0``; of a parallel job ``12.0.3`` is a node.

    :raises UsageError: when it is not a job id.
    """
    if NodeId.match(word) is None:
        raise UsageError(f"{word!r} is not a job id", hint="cluster.proc, cluster.proc.node, or cluster for its first")
    return word if "." in word else f"{word}.0"


class Visit:
    """One visit: messages there and back. Closed by leaving the block."""

    def __init__(self, job: str, parsed: Parsed, inv: Invocation) -> None:
        self._job = job
        aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
        self._stub = aimed.stub(schedd_pb2_grpc.ScheddStub, "schedd")
        self._out: queue.SimpleQueue[schedd_pb2.JobVisit | None] = queue.SimpleQueue()
        self._call: grpc.Call | None = None
        self._stderr = inv.stderr

    def __enter__(self) -> Visit:
        self._call = self._stub.Visit(iter(self._out.get, None))
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Hang up."""
        self._out.put(None)
        if self._call is not None:
            self._call.cancel()

    def say(self, message: schedd_pb2.JobVisit) -> None:
        """Send a message; the first one names the job."""
        message.job, self._job = self._job, ""
        self._out.put(message)

    def heard(self) -> Iterator[schedd_pb2.JobVisit]:
        """What the job's machine says. Where nothing comes for 10 s, standard error says what is waited for.

        :raises SlotwiseError: when the visit is refused.
        """
        if self._call is None:
            return
        try:
            with told_late(self._stderr, "schedd"):
                first = next(self._call, None)
            if first is not None:
                yield first
                yield from self._call
        except grpc.RpcError as error:
            raise to_error(error, peer="the schedd") from None


class _Room:
    """How much input may be sent before the other side has taken some."""

    def __init__(self) -> None:
        self._left = _WINDOW
        self._changed = threading.Condition()

    def take(self, count: int) -> None:
        """Wait for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._left > 0)
            self._left -= count

    def give(self, count: int) -> None:
        """Some was taken."""
        with self._changed:
            self._left += count
            self._changed.notify_all()


def carry(
    visit: Visit, request: schedd_pb2.OpenShell, read: Callable[[], bytes], write: Callable[[bytes, bool], None]
) -> int:
    """Run a program beside the job, and carry its input and output; its exit status, 255 when there is none.

    :param read: gives a piece of input, nothing at its end; called in a thread of its own.
    :param write: takes a piece of output; true for one of standard error.
    :raises SlotwiseError: when there can be none.
    """
    visit.say(schedd_pb2.JobVisit(open=request))
    room = _Room()
    sender = threading.Thread(target=_send_input, args=(visit, room, read), daemon=True)
    for said in visit.heard():
        if not sender.ident:
            sender.start()  # not before there is a shell: a visit that is tried again must not lose input
        what = said.WhichOneof("what")
        if what == "data":
            write(said.data.bytes, said.data.error)
            visit.say(schedd_pb2.JobVisit(taken=len(said.data.bytes)))
        elif what == "taken":
            room.give(said.taken)
        elif what == "end":
            if said.end.error:
                raise SlotwiseError(said.end.error)
            return int(said.end.status)
    return 255


def _send_input(visit: Visit, room: _Room, read: Callable[[], bytes]) -> None:
    while True:
        data = read()
        room.take(len(data))
        visit.say(schedd_pb2.JobVisit(data=schedd_pb2.VisitData(bytes=data, last=not data)))
        if not data:
            return


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

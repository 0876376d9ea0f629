"""Standard output and error of running jobs, written to their files as they come (``stream_output``).

Each piece has its place in the file: base (where the run's stream begins) plus offset in the stream. One that comes
again writes the same bytes to the same place, and a piece beyond the end of the file is not written: the starter is
told where to go on. So the file has the stream once and without holes, whichever side was restarted meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial

from slotwise.daemon.host_faults import waited_out
from slotwise.daemon.user_paths import open_path
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.records import Run
from slotwise.schedd.transfer.files import STDERR, STDOUT, FilePlan, TransferError
from slotwise.schedd.transfer.results import destination, is_special, make_parents, write_all
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.schedd.user_files.owner_rights import as_owner
from slotwise.transfer import safe_open
from slotwise.wire.gen import schedd_pb2


class LiveOutput:
    """Takes the streams of this schedd's running jobs."""

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers

    async def take(self, run: Run, piece: schedd_pb2.StreamPiece) -> None:
        """Write a piece and tell the starter how far the file has the stream."""
        stream, transfer = run.stream, self._transfers.of(run)
        if stream is None or run.over:
            return
        kept = await self._transfers.in_thread(partial(write, transfer.plan, piece))
        run.received_bytes += kept.end - piece.offset if kept.end > piece.offset else 0
        if run.stream is stream:
            stream.send(schedd_pb2.ShadowMessage(run_id=run.id, streamed=kept))


def write(plan: FilePlan, piece: schedd_pb2.StreamPiece) -> schedd_pb2.StreamKept:
    """Write a piece into the job's file, with the rights of the job's owner (worker thread)."""
    kept = schedd_pb2.StreamKept(error=piece.error, base=piece.base, end=piece.offset)
    target = "/dev/null"
    try:
        target = destination(plan, STDERR if piece.error else STDOUT) or target
        with as_owner(plan.owner, plan.fallback_account):
            waited_out(partial(_write, target, plan.iwd, piece, kept))
    except (OSError, TransferError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else error.message
        kept.problem = f"Cannot write standard {'error' if piece.error else 'output'} to {target}: {reason}"
        kept.hold_code = int(Hold.UNABLE_TO_OPEN_OUTPUT if piece.begin else Hold.TRANSFER_OUTPUT_ERROR)
        kept.hold_subcode = error.errno or 0 if isinstance(error, OSError) else error.subcode
    return kept


def _write(target: str, iwd: str, piece: schedd_pb2.StreamPiece, kept: schedd_pb2.StreamKept) -> None:
    """Write to the file. A terminal or pipe has no places: there a piece that comes again is written again."""
    if piece.base < 0 or piece.offset < 0:
        raise ValueError("a stream has no place before its beginning")
    make_parents(target, iwd)
    if is_special(target):
        safe_open.write_special(target, piece.data)
        kept.end = piece.offset + len(piece.data)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = open_path(target, flags | (os.O_TRUNC if piece.begin and not piece.append else 0), 0o644)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        kept.base = state.st_size if piece.begin else min(piece.base, state.st_size)
        if kept.base + piece.offset > state.st_size:
            kept.end = state.st_size - kept.base
            return
        write_all(descriptor, piece.data, kept.base + piece.offset)
        kept.end = piece.offset + len(piece.data)
    finally:
        os.close(descriptor)

"""Submissions that arrive in several messages: one in parts, or a stream of many small ones.

Several frames of a stream can be on their way to the disk at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import grpc

from slotwise.errors import DeniedError, SlotwiseError, UsageError
from slotwise.schedd.api.audit_lines import came
from slotwise.schedd.submission import convert
from slotwise.schedd.submission.admission import Admission
from slotwise.schedd.submission.byte_limits import Holding
from slotwise.schedd.submission.new_cluster import SubmittedCluster
from slotwise.schedd.submission.submissions import Checked, Submission, SubmitResult
from slotwise.schedd.submission.transaction import SubmitTransactions, Underway
from slotwise.wire import audit, call
from slotwise.wire.context import StreamContext
from slotwise.wire.gen import schedd_pb2

Frames: TypeAlias = StreamContext[schedd_pb2.SubmitFrame, schedd_pb2.SubmitAnswers]
#: Frames that may wait for the disk; more are not read.
_AHEAD = 16
#: How long the next part of a submission may take, in seconds.
_PART_S = 120.0


async def gather(
    parts: AsyncIterator[schedd_pb2.SubmitPart], holding: Holding, part_s: float = _PART_S
) -> tuple[list[SubmittedCluster], bytes, bool]:
    """Gather a submission from its parts: its clusters, its key, and whether it may have been sent before.

    :raises UsageError: when the parts are out of order, end without a commit or arrive too slowly.
    :raises DeniedError: when they hold too many bytes.
    """
    clusters: list[SubmittedCluster] = []
    committed, key, again = False, b"", False
    following = aiter(parts)
    while True:
        try:
            async with asyncio.timeout(part_s):
                part = await anext(following)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise UsageError(f"no part of the submission came in {part_s:g} s; nothing is queued") from None
        holding.add(part.ByteSize())
        if part.key:
            key, again = part.key, part.again
        what = part.WhichOneof("part")
        if what == "open_cluster":
            clusters.append(convert.submitted_cluster(part.open_cluster))
        elif what == "more_procs":
            if not clusters:
                raise UsageError("procs came before their cluster")
            clusters[-1].batches.append(convert.proc_batch(part.more_procs))
        elif what == "commit":
            committed = part.commit
    if not committed:
        raise UsageError("the submission ended without a commit; nothing is queued")
    return clusters, key, again


class SubmissionStream:
    """Takes frames, and answers each submission in order of arrival."""

    def __init__(self, admission: Admission, transactions: SubmitTransactions, user: str, peer: str = "") -> None:
        self._admission = admission
        self._transactions = transactions
        self._user = user
        self._peer = peer
        #: Bytes of the frames that were read and are not answered yet.
        self._held = 0
        self._waiting: asyncio.Queue[tuple[list[Checked], Underway, int] | None] = asyncio.Queue(_AHEAD)

    async def serve(self, context: Frames) -> None:
        """Serve the stream to its end; everything that was read is answered."""
        intake = self._transactions.intake
        answering = asyncio.create_task(self._answer(context))
        try:
            while (frame := await context.read()) is not grpc.aio.EOF:
                size = frame.ByteSize()
                await intake.wait(self._user, size)
                intake.change(self._user, size)
                self._held += size
                earlier = [await self._earlier(bundle) for bundle in frame.submissions]
                sent = [await self._read(bundle) for bundle in frame.submissions]
                # Checked here and at once, so that ids are given in the order of arrival.
                checked = [known or self._checked(*each) for known, each in zip(earlier, sent, strict=True)]
                underway = self._transactions.begin([one for one in checked if isinstance(one, Submission)])
                await self._waiting.put((checked, underway, size))
            await self._waiting.put(None)
            await answering
        finally:
            answering.cancel()
            intake.change(self._user, -self._held)

    async def _earlier(self, bundle: schedd_pb2.SubmitBundle) -> SubmitResult | None:
        return await self._transactions.earlier(self._user, bundle.key) if bundle.again else None

    async def _read(self, bundle: schedd_pb2.SubmitBundle) -> tuple[bytes, list[SubmittedCluster] | SlotwiseError]:
        """The submission's key, and its clusters with the attributes of their proxies."""
        clusters = [convert.submitted_cluster(cluster) for cluster in bundle.clusters]
        try:
            await self._admission.look_ahead(self._user, clusters)
        except SlotwiseError as error:
            return bundle.key, error
        return bundle.key, clusters

    def _checked(self, key: bytes, clusters: list[SubmittedCluster] | SlotwiseError) -> Checked:
        if isinstance(clusters, SlotwiseError):
            return clusters
        try:
            return self._admission.check(self._user, clusters, key=key, peer=self._peer)
        except SlotwiseError as error:
            return error

    async def _answer(self, context: Frames) -> None:
        broken = False
        while (following := await self._waiting.get()) is not None:
            checked, underway, size = following
            answers = await self._transactions.answers(checked, underway)
            self._transactions.intake.change(self._user, -size)
            self._held -= size
            message = convert.answers(answers)
            for said in message.answers:
                if said.HasField("error"):
                    denied = said.error.kind == DeniedError.code
                    call.refused(self._peer, "Schedd/SubmitMany", said.error.message, denied=denied)
            if entered := [one for answer in answers if isinstance(answer, SubmitResult) for one in answer.clusters]:
                audit.note_now(came(entered))
            if not broken:
                try:
                    await context.write(message)
                except (grpc.RpcError, asyncio.InvalidStateError):
                    broken = True  # the caller left; what it sent is queued all the same

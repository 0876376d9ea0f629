"""One caller's stream of many small submissions: several frames are on their way to the disk at once."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from slotwise.errors import DeniedError, SlotwiseError
from slotwise.schedd.admission import Admission, Checked, Submission, Underway
from slotwise.schedd.draft import Incoming
from slotwise.wire import call
from slotwise.wire.gen import schedd_pb2

#: Frames that may wait for the disk; more are not read.
_AHEAD = 16


class SubmissionStream:
    """Takes frames, and answers each submission in the order they came."""

    def __init__(self, admission: Admission, owner: str, superuser: bool, peer: str = "") -> None:
        self._admission = admission
        self._owner = owner
        self._superuser = superuser
        self._peer = peer
        self._waiting: asyncio.Queue[tuple[list[Checked], Underway] | None] = asyncio.Queue(_AHEAD)

    async def serve(self, context: Any) -> None:
        """Serve the stream to its end; what was read is answered."""
        answering = asyncio.create_task(self._answer(context))
        try:
            while (frame := await context.read()) is not grpc.aio.EOF:
                earlier = [await self._earlier(bundle) for bundle in frame.submissions]
                sent = [await self._read(bundle) for bundle in frame.submissions]
                # Checked here and at once, so that ids are given in the order of arrival.
                checked = [known or self._checked(*each) for known, each in zip(earlier, sent, strict=True)]
                underway = self._admission.begin([one for one in checked if isinstance(one, Submission)])
                await self._waiting.put((checked, underway))
            await self._waiting.put(None)
            await answering
        finally:
            answering.cancel()

    async def _earlier(self, bundle: schedd_pb2.SubmitBundle) -> schedd_pb2.SubmitReply | None:
        return await self._admission.earlier(self._owner, bundle.key) if bundle.again else None

    async def _read(self, bundle: schedd_pb2.SubmitBundle) -> tuple[bytes, list[Incoming] | SlotwiseError]:
        """Its key, and its clusters with what their proxies tell."""
        clusters = [Incoming.whole(cluster) for cluster in bundle.clusters]
        try:
            await self._admission.read_proxies(self._owner, clusters)
        except SlotwiseError as error:
            return bundle.key, error
        return bundle.key, clusters

    def _checked(self, key: bytes, clusters: list[Incoming] | SlotwiseError) -> Checked:
        if isinstance(clusters, SlotwiseError):
            return clusters
        try:
            return self._admission.check(self._owner, clusters, superuser=self._superuser, key=key, peer=self._peer)
        except SlotwiseError as error:
            return error

    async def _answer(self, context: Any) -> None:
        broken = False
        while (following := await self._waiting.get()) is not None:
            answers = await self._admission.answers(*following)
            for answer in answers.answers:
                if answer.HasField("error"):
                    denied = answer.error.kind == DeniedError.code
                    call.refused(self._peer, "Schedd/SubmitMany", answer.error.message, denied=denied)
            if not broken:
                try:
                    await context.write(answers)
                except (grpc.RpcError, asyncio.InvalidStateError):
                    broken = True  # the caller left; what it sent is queued all the same

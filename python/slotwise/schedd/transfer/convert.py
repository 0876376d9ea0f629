"""Converts files in transfer between messages and the schedd's own values."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from slotwise.schedd.claims.starter_link import StarterLink
from slotwise.schedd.transfer.common_inputs import CommonAnswer, CommonInputs
from slotwise.schedd.transfer.files import TransferError
from slotwise.schedd.transfer.spooling import SandboxPart, SpooledPart
from slotwise.transfer.pieces import Piece
from slotwise.wire.gen import schedd_pb2


def piece_of(message: schedd_pb2.FilePiece) -> Piece:
    """The piece of a file in a message."""
    return Piece(os.fsdecode(message.name), message.mode, message.data, message.offset, message.last, message.directory)


def file_piece(piece: Piece) -> schedd_pb2.FilePiece:
    """The message for a piece of a file."""
    return schedd_pb2.FilePiece(
        name=os.fsencode(piece.name),
        mode=piece.mode,
        data=piece.data,
        last=piece.last,
        directory=piece.directory,
        offset=piece.offset,
    )


async def send_input(stream: StarterLink, run_id: str, piece: Piece) -> None:
    """Send a piece of a run's input; waits while much is on its way."""
    await stream.send_piece(schedd_pb2.ShadowMessage(run_id=run_id, input=file_piece(piece)))


def give_output_turn(stream: StarterLink, run_id: str) -> None:
    """The run's outputs may be sent."""
    stream.send(schedd_pb2.ShadowMessage(run_id=run_id, output_turn=schedd_pb2.OutputTurn()))


def end_inputs(stream: StarterLink, run_id: str, failure: TransferError | None) -> None:
    """Tell the starter that it has all input, or why it gets no more."""
    complete = schedd_pb2.InputsComplete()
    if failure is not None:
        complete.error, complete.hold_code, complete.hold_subcode = failure.message, failure.hold_code, failure.subcode
    stream.send(schedd_pb2.ShadowMessage(run_id=run_id, inputs_complete=complete))


def offer_common(stream: StarterLink, run_id: str, found: CommonInputs, keep_s: int) -> None:
    """Ask the starter whether it has a job's common inputs, or can keep them."""
    offer = schedd_pb2.CommonInputsOffer(digest=found.digest, bytes=found.size, keep_s=keep_s)
    stream.send(schedd_pb2.ShadowMessage(run_id=run_id, common_offered=offer))


def end_common(stream: StarterLink, run_id: str, *, whole: bool) -> None:
    """The starter has all common inputs; ``whole``: they are what it was offered."""
    sent = schedd_pb2.CommonInputsSent(whole=whole)
    stream.send(schedd_pb2.ShadowMessage(run_id=run_id, common_sent=sent))


def common_answer(message: schedd_pb2.CommonInputsAnswer) -> CommonAnswer:
    """What the starter has answered; a word of a later version means that it keeps none."""
    try:
        return CommonAnswer(message.what)
    except ValueError:
        return CommonAnswer.OWN


async def spooled_parts(messages: AsyncIterator[schedd_pb2.SpoolPart]) -> AsyncIterator[SpooledPart]:
    """The parts of spooled files as they arrive."""
    async for message in messages:
        file = piece_of(message.file) if message.HasField("file") else None
        yield SpooledPart(tuple(message.jobs), file, message.commit)


def sandbox_piece(part: SandboxPart) -> schedd_pb2.SandboxPiece:
    """The message for a part of a job's sandbox."""
    if part.file is None:
        return schedd_pb2.SandboxPiece(job=part.job, ad=part.ad, directory=part.directory)
    return schedd_pb2.SandboxPiece(job=part.job, file=file_piece(part.file))

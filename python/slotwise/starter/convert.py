"""The starter's messages on the wire: its own values (`messages`) to and from protobuf."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from slotwise.starter.messages import (
    Accepted,
    Ack,
    BytesTaken,
    Checkpoint,
    CheckpointKept,
    CommonInputsAnswer,
    CommonOffered,
    CommonSent,
    Credentials,
    Ended,
    FilePiece,
    FromShadow,
    Hello,
    HostFacts,
    Input,
    InputsComplete,
    JobSuspended,
    JobUsage,
    KillRun,
    Leftover,
    LeftoversRemoved,
    ListedRun,
    NeedInputs,
    OpenShell,
    Output,
    OutputsLeave,
    OutputsWait,
    OutputTurnGiven,
    Peek,
    PeekedStream,
    PeekFile,
    Refused,
    RemoteIo,
    RemoteIoDone,
    RunList,
    RunPhase,
    SlotFree,
    Started,
    StartJob,
    StartRefused,
    StreamKept,
    StreamPiece,
    Terminal,
    ToShadow,
    ToStartd,
    Update,
    Visit,
    VisitData,
    VisitEnd,
    VisitMessage,
)
from slotwise.wire.gen import common_pb2, schedd_pb2, starter_pb2

# ---- to the shadow


def shadow_report(run_id: str, report: ToShadow) -> schedd_pb2.StarterMessage:
    """What a run reports to its shadow, as a message of the stream."""
    message = schedd_pb2.StarterMessage(run_id=run_id)
    match report:
        case Output(piece):
            message.output.CopyFrom(_file_piece(piece))
        case StreamPiece(error, begin, append, base, offset, data):
            message.stream.CopyFrom(
                schedd_pb2.StreamPiece(error=error, begin=begin, append=append, base=base, offset=offset, data=data)
            )
        case OutputsLeave(at):
            message.transfer.CopyFrom(schedd_pb2.FileTransferState(stage="output_started", at=int(at)))
        case OutputsWait(size):
            message.outputs_wait.CopyFrom(schedd_pb2.OutputsWait(bytes=size))
        case RemoteIo():
            message.io.CopyFrom(
                schedd_pb2.RemoteIo(
                    id=report.id,
                    op=report.op,
                    name=report.name,
                    text=report.text,
                    data=report.data,
                    offset=report.offset,
                    length=report.length,
                    mode=report.mode,
                )
            )
        case Visit():
            message.visit.CopyFrom(_visit(report))
        case Update(pack):
            message.update.CopyFrom(common_pb2.AdBatch(pack=pack))
        case CommonInputsAnswer(what):
            message.common.CopyFrom(
                schedd_pb2.CommonInputsAnswer(what=schedd_pb2.CommonInputsAnswer.What.Name(what.value))
            )
        case NeedInputs():
            message.need_input.CopyFrom(schedd_pb2.FileNeed(window=0))
        case Started(pid, scratch_dir, at, slot_properties):
            message.started.CopyFrom(
                schedd_pb2.RunStarted(pid=pid, scratch_dir=scratch_dir, at=at, slot_properties=slot_properties)
            )
        case Checkpoint():
            message.checkpoint.CopyFrom(
                schedd_pb2.RunCheckpoint(
                    number=report.number,
                    at=report.at,
                    ad=report.ad,
                    stored_as=report.stored_as,
                    failed=report.failed,
                    reason=report.reason,
                )
            )
        case Hello():
            message.hello.CopyFrom(
                schedd_pb2.RunHello(
                    token=report.token,
                    slot_name=report.slot_name,
                    resume=report.resume,
                    asks_for_inputs=report.asks_for_inputs,
                    keeps_common_inputs=report.keeps_common_inputs,
                )
            )
        case Ended():
            message.ended.CopyFrom(
                schedd_pb2.RunEnded(
                    how=report.how,
                    code=report.code,
                    ad=report.ad,
                    reason=sendable(report.reason),
                    reason_code=report.reason_code,
                    reason_subcode=report.reason_subcode,
                    at=report.at,
                    core_dumped=report.core_dumped,
                )
            )
    return message


def _file_piece(piece: FilePiece) -> schedd_pb2.FilePiece:
    return schedd_pb2.FilePiece(
        name=piece.name,
        mode=piece.mode,
        data=piece.data,
        last=piece.last,
        directory=piece.directory,
        offset=piece.offset,
    )


_PEEKED = {
    PeekedStream.NAMED: schedd_pb2.PeekFile.NAMED,
    PeekedStream.OUTPUT: schedd_pb2.PeekFile.OUTPUT,
    PeekedStream.ERROR: schedd_pb2.PeekFile.ERROR,
}


def _visit(visit: Visit) -> schedd_pb2.JobVisit:
    message = schedd_pb2.JobVisit(id=visit.id)
    match visit.what:
        case Peek(files, max_bytes):
            message.peeked.CopyFrom(schedd_pb2.Peek(max_bytes=max_bytes))
            for file in files:
                message.peeked.files.add(
                    which=_PEEKED[file.which],
                    name=file.name,
                    offset=file.offset,
                    data=file.data,
                    error=sendable(file.error),
                )
        case VisitData(data, error, last):
            message.data.CopyFrom(schedd_pb2.VisitData(bytes=data, error=error, last=last))
        case BytesTaken(count):
            message.taken = count
        case VisitEnd(status, text):
            message.end.CopyFrom(schedd_pb2.VisitEnd(status=status, error=sendable(text)))
    return message


# ---- from the shadow


def shadow_message(message: schedd_pb2.ShadowMessage) -> FromShadow | None:
    """What a shadow tells a run; None when this version does not know the kind of message."""
    match message.WhichOneof("what"):
        case "input":
            return Input(_piece(message.input))
        case "streamed":
            kept = message.streamed
            return StreamKept(kept.error, kept.base, kept.end, kept.problem, kept.hold_code, kept.hold_subcode)
        case "io":
            return RemoteIoDone(message.io.id, message.io.error, message.io.data, message.io.text)
        case "visit":
            return Visit(message.visit.id, _visit_message(message.visit))
        case "accepted":
            accepted = message.accepted
            return Accepted(accepted.job_ad, accepted.user, accepted.output_turns, _tokens(accepted.credentials))
        case "credentials":
            return Credentials(_tokens(message.credentials))
        case "output_turn":
            return OutputTurnGiven()
        case "inputs_complete":
            complete = message.inputs_complete
            return InputsComplete(complete.error, complete.hold_code, complete.hold_subcode)
        case "common_offered":
            offer = message.common_offered
            return CommonOffered(offer.digest, offer.bytes, offer.keep_s)
        case "common_sent":
            return CommonSent(message.common_sent.whole)
        case "checkpoint_kept":
            stored = message.checkpoint_kept
            return CheckpointKept(stored.error, stored.hold_code, stored.hold_subcode)
        case "ack":
            return Ack()
        case "refused":
            return Refused(message.refused.reason)
        case "kill":
            kill = message.kill
            return KillRun(kill.fast, kill.reason, kill.reason_code, kill.want_outputs)
    return None


def _tokens(message: schedd_pb2.CredentialFiles) -> dict[str, bytes]:
    return {file.name: file.content for file in message.files}


def _piece(piece: schedd_pb2.FilePiece) -> FilePiece:
    return FilePiece(piece.name, piece.mode, piece.data, piece.last, piece.directory, piece.offset)


_STREAMS = {number: stream for stream, number in _PEEKED.items()}


def _visit_message(visit: schedd_pb2.JobVisit) -> VisitMessage | None:
    match visit.WhichOneof("what"):
        case "data":
            return VisitData(visit.data.bytes, visit.data.error, visit.data.last)
        case "taken":
            return BytesTaken(visit.taken)
        case "peek":
            files = (
                PeekFile(_STREAMS.get(file.which, PeekedStream.NAMED), file.name, file.offset)
                for file in visit.peek.files
            )
            return Peek(tuple(files), visit.peek.max_bytes)
        case "open":
            terminal = _terminal(visit.open.terminal) if visit.open.HasField("terminal") else None
            return OpenShell(tuple(visit.open.command), terminal, tuple(visit.open.shells))
        case "resize":
            return _terminal(visit.resize)
        case "end":
            return VisitEnd(visit.end.status, visit.end.error)
    return None


def _terminal(terminal: schedd_pb2.Terminal) -> Terminal:
    return Terminal(terminal.rows, terminal.columns, terminal.kind)


# ---- from the startd


def start_job(start: starter_pb2.StartJob) -> StartJob:
    """The command to start a run."""
    return StartJob(
        slot_ad=start.slot_ad,
        slot_name=start.slot_name,
        job_ad=start.job_ad,
        run_token=start.run_token,
        shadow_address=start.shadow_address,
        limits=start.limits,
        lease_s=start.lease_s,
        fetched_for=start.fetched_for,
    )


# ---- to the startd


def startd_report(run_id: str, report: ToStartd) -> starter_pb2.JobEvent:
    """What the starter reports to the startd, as a message of the stream; ``run_id`` is empty for the host's own."""
    message = starter_pb2.JobEvent(run_id=run_id)
    match report:
        case RunPhase(phase, pid):
            message.running.CopyFrom(starter_pb2.JobRunning(pid=pid, phase=phase))
        case JobUsage(pack):
            message.usage.CopyFrom(common_pb2.AdBatch(pack=pack))
        case SlotFree():
            message.gone.CopyFrom(_gone(report))
        case JobSuspended(resumed):
            message.suspended.CopyFrom(starter_pb2.JobSuspended(resumed=resumed))
        case StartRefused(reason):
            message.refused.CopyFrom(starter_pb2.JobRefused(reason=sendable(reason)))
        case LeftoversRemoved():
            message.repaired.CopyFrom(starter_pb2.JobRepaired())
        case HostFacts(pack):
            message.host_facts.CopyFrom(common_pb2.AdBatch(pack=pack))
        case RunList():
            message.jobs.CopyFrom(_run_list(report))
    return message


def _gone(free: SlotFree) -> starter_pb2.JobGone:
    return starter_pb2.JobGone(
        how=free.how,
        broken=free.broken,
        reason=sendable(free.reason),
        code=free.code,
        cpu_s=free.cpu_s,
        left=_left(free.left) if free.left is not None else None,
        bytes_received=free.bytes_received,
        bytes_sent=free.bytes_sent,
        fetched=free.fetched,
        finished=free.finished,
    )


def _run_list(known: RunList) -> starter_pb2.JobList:
    return starter_pb2.JobList(
        jobs=[_listed(run) for run in known.runs], left=[_left(one) for one in known.left], repaired=known.repaired
    )


def _listed(run: ListedRun) -> starter_pb2.JobListed:
    return starter_pb2.JobListed(
        run_id=run.run_id,
        slot_name=run.slot_name,
        pid=run.pid,
        phase=run.phase,
        suspended=run.suspended,
        shadow_address=run.shadow_address,
    )


def _left(left: Leftover) -> starter_pb2.JobLeft:
    return starter_pb2.JobLeft(
        run_id=left.run_id,
        slot_name=left.slot_name,
        reason=sendable(left.reason),
        code=left.code,
        cpus=left.cpus,
        memory_mib=left.memory_mib,
        disk_kib=left.disk_kib,
        assigned=dict(left.assigned),
    )


# ---- on disk


def encode_list(known: RunList) -> bytes:
    """A list as the starter keeps it in a file."""
    return _run_list(known).SerializeToString()


def decode_list(data: bytes) -> RunList:
    """What :func:`encode_list` gave.

    :raises ValueError: when it is something else.
    """
    try:
        kept = starter_pb2.JobList.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    runs = (ListedRun(run.run_id, run.slot_name, run.pid, run.phase, run.suspended) for run in kept.jobs)
    left = (
        Leftover(
            one.run_id, one.slot_name, one.reason, one.code, one.cpus, one.memory_mib, one.disk_kib, dict(one.assigned)
        )
        for one in kept.left
    )
    return RunList(tuple(runs), tuple(left), tuple(kept.repaired))


def sendable(text: str) -> str:
    """Text for a message: bytes of a file name that are not UTF-8 become question marks."""
    return text.encode("utf-8", "replace").decode()

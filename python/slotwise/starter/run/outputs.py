"""Sends the output files of a run, and those of a checkpoint, to the access point or where their URLs lead."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Protocol

from msgspec.structs import replace

from slotwise.errors import UsageError
from slotwise.execution.exit_status import TRANSFER_OUTPUT_ERROR, End, held
from slotwise.execution.job_view import CheckpointRules
from slotwise.starter.job.ads import pack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.failures import scratch_failure
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import Checkpoint, Output, OutputsLeave, OutputsWait
from slotwise.starter.run import events
from slotwise.starter.run.measured import MeasuredRun, usage_ad
from slotwise.starter.run.run_host import HostServices
from slotwise.starter.transfer import distant_checkpoint, manifest, transfer, url_transfer
from slotwise.starter.transfer.live_output import LiveOutput
from slotwise.starter.transfer.output_turn import OutputTurn
from slotwise.starter.transfer.transfer_stats import OWN
from slotwise.starter.transfer.url_transfer import TransferringRun
from slotwise.starter.transfer.wording import failure

_log = logging.getLogger(__name__)

#: Why files that are to be encrypted do not go back.
NOT_PRIVATE = "The job's files are to be encrypted, and the connection to the access point is not"


class SendingRun(TransferringRun, MeasuredRun, Protocol):
    """What the transfer of outputs needs of a run."""

    shadow: ShadowConnection
    live: LiveOutput
    output_turn: OutputTurn

    @property
    def host(self) -> HostServices:
        """What all runs share."""
        ...

    @property
    def may_send(self) -> bool:
        """Whether files of the job may go over the link as it is now."""
        ...

    def on(self, event: events.Event) -> None:
        """Apply an event."""
        ...


async def send_outputs(run: SendingRun) -> None:
    """Send what goes back; a break of the stream leaves it for the next time."""
    job = run.job.view
    if job is None or not run.job.transfers:
        run.on(events.OutputsSent())
        return
    only_streams = run.state.outputs in ("streams", "unready")
    problems: list[End] = []
    if not await run.live.finish(problems):
        return
    if run.state.outputs == "live":
        run.on(events.OutputsSent(problems[0] if problems else None))
        return
    scratch, identity = run.assignment.directory.scratch, run.job.identity
    try:
        if job.manifest and not only_streams:
            await record_manifest(run.assignment, run.job, "out")
        # A listed file that is not there and has a URL is for the plugin to miss: it tells of all that are.
        missed = url_transfer.output_urls(run.job.ad, () if only_streams else job.transfer.output_files or ())
        try:
            chosen = transfer.choose(
                job, scratch, run.files.before, identity, streams_only=only_streams, elsewhere=missed
            )
        except transfer.OutputError as error:  # the others go back all the same: they show what went wrong
            problems.append(error.end)
            chosen = error.found
        away = url_transfer.output_urls(run.job.ad, [output.name for output in chosen if not output.directory])
        away |= {name: url for name, url in missed.items() if transfer.is_absent(scratch / name, identity)}
        if away:
            run.shadow.report(OutputsLeave(run.host.clock.now()))
            if (problem := await url_transfer.deliver(run, run.host.machine.plugins, away)) is not None:
                problems.append(problem)
        if not await _send_files(run, [output for output in chosen if output.name not in away], problems):
            return
    except OSError as error:
        problems.append(scratch_failure(error))
    run.on(events.OutputsSent(_named(run, problems[0]) if problems else None))


async def record_manifest(assignment: Assignment, job: RunJob, name: str) -> None:
    """List what is in the scratch directory now. A list that cannot be made is not worth the job: the log has why."""
    assert job.view is not None
    scratch, loop = assignment.directory.scratch, asyncio.get_running_loop()
    try:
        await loop.run_in_executor(None, manifest.record_files, scratch, job.view.manifest, name, job.identity)
    except OSError as error:
        _log.warning("%s: no list %r for its manifest (run %s): %s", assignment.job_id, name, assignment.run_id, error)


def _named(run: SendingRun, end: End) -> End:
    """A file that cannot be sent, with the places that it was to move between, worded like HTCondor's."""
    if end.reason_code != TRANSFER_OUTPUT_ERROR or end.reason.startswith("Transfer "):
        return end
    return replace(end, reason=failure(run.assignment, run.job, end.reason, inputs=False))


def input_failure(assignment: Assignment, job: RunJob, name: str, error: OSError) -> str:
    """Why an input file cannot be written, worded like HTCondor's."""
    details = f"writing to file {name}: (errno {error.errno}) {error.strerror}"
    return failure(assignment, job, details, inputs=True)


async def send_checkpoint(run: SendingRun) -> None:
    """Send the files of a checkpoint, then its report; a break of the stream leaves it for the next time."""
    job = run.job.view
    if job is None or not run.job.transfers:
        run.on(events.CheckpointStored())  # the files are where the next start will look for them
        return
    scratch, identity = run.assignment.directory.scratch, run.job.identity
    try:
        chosen = transfer.choose_checkpoint(job, scratch, run.files.before, identity)
        if job.checkpoint is not None and job.checkpoint.destination:
            await _send_away(run, job.checkpoint, chosen)
            return
        problems: list[End] = []
        if not await _send_files(run, chosen, problems):
            return
        if problems:
            raise transfer.OutputError(problems[0])
    except transfer.OutputError as error:
        run.on(events.CheckpointStored(_named(run, error.end)))
        return
    except OSError as error:
        run.on(events.CheckpointStored(scratch_failure(error)))
        return
    run.output_turn.end()
    run.shadow.report(_checkpoint(run))


def _checkpoint(run: SendingRun) -> Checkpoint:
    """The report of a checkpoint, with the usage so far."""
    now, result = run.host.clock.now(), run.keeper.result
    at = result.ended_at if result is not None else now
    attributes = usage_ad(run, now)
    attributes["NewlyCommittedTime"] = int(max(0.0, at - run.job.started_at))
    return Checkpoint(number=run.keeper.checkpoints, at=int(at), ad=pack_one(attributes))


async def _send_away(run: SendingRun, rules: CheckpointRules, chosen: list[transfer.Output]) -> None:
    """Send the files of a checkpoint to the job's destination, and its manifest to the access point."""
    number = rules.last_number + 1 + run.keeper.checkpoints
    try:
        stored = await distant_checkpoint.store(run, run.host.machine.plugins, rules, chosen, number)
    except UsageError as error:
        run.on(events.CheckpointStored(distant_checkpoint.failed(str(error))))
        return
    for piece in stored.manifest:
        if not await run.shadow.send_piece(Output(piece)):
            return
    report = replace(_checkpoint(run), stored_as=number, failed=bool(stored.reason), reason=stored.reason)
    run.shadow.report(report)
    if stored.hold is not None:
        run.on(events.CheckpointStored(stored.hold))


async def _send_files(run: SendingRun, chosen: list[transfer.Output], problems: list[End]) -> bool:
    """Send files piece by piece; False when the stream broke. ``problems``: of those that cannot be read, or sent."""
    if chosen and not run.may_send:
        problems.append(held(NOT_PRIVATE, TRANSFER_OUTPUT_ERROR, errno.EPROTONOSUPPORT))
        return True
    size = sum(output.size for output in chosen)
    if not await run.output_turn.wait(size, lambda: run.shadow.report(OutputsWait(size))):
        return False
    large = size > 4 * transfer.PIECE
    pieces = transfer.pieces(chosen, run.job.identity, problems)
    loop = asyncio.get_running_loop()
    run.files.sent.clear(OWN)
    while True:
        piece = await loop.run_in_executor(None, next, pieces, None) if large else next(pieces, None)
        if piece is None:
            return True
        if not await run.shadow.send_piece(Output(piece)):
            return False
        run.files.bytes_sent += len(piece.data)
        run.files.sent.add(OWN, int(piece.last and not piece.directory), len(piece.data))

"""What a run tells: outputs, usage and its end to the shadow; usage and the freed slot to the startd."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slotwise.classad import ClassAd
from slotwise.execution.exit_status import TRANSFER_OUTPUT_ERROR, End, How, held
from slotwise.execution.launcher import write_files
from slotwise.starter.hooks import hooks
from slotwise.starter.job import usage
from slotwise.starter.job.ads import lookup, memory_usage_expression, pack_one, text
from slotwise.starter.job.failures import scratch_failure
from slotwise.starter.job.usage import Moment
from slotwise.starter.links.leftovers import CANNOT_KILL
from slotwise.starter.run import events
from slotwise.starter.transfer import transfer, url_transfer
from slotwise.starter.transfer.transfer_stats import OWN
from slotwise.wire.gen import common_pb2, schedd_pb2, starter_pb2

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run

#: Why files that are to be encrypted do not go back.
NOT_PRIVATE = "The job's files are to be encrypted, and the connection to the access point is not"


def send_started(run: Run) -> None:
    """Tell the shadow that the job runs."""
    started = schedd_pb2.RunStarted(
        pid=run.state.pid,
        scratch_dir=str(run.directory.scratch),
        at=int(run.started_at),
        slot_properties=pack_one(_slot_properties(run)),
    )
    run.say(started=started)
    if run.user_log is not None:
        run.user_log.executing()


def log_suspension(run: Run, resumed: bool) -> None:
    """Tell the log of fetched work; for all other jobs the access point writes what it hears from the startd."""
    if run.user_log is not None:
        run.user_log.suspended(resumed=resumed, processes=max(1, run.keeper.usage().processes))


def _slot_properties(run: Run) -> dict[str, Any]:
    """What the event of execution tells of the slot."""
    ad = run.machine_ad
    value = lookup(ad)
    properties: dict[str, Any] = {"CondorScratchDir": str(run.directory.scratch), "GPUs": 0}
    for tag in run.slot.machine_resources:
        if isinstance(amount := value(tag), int | float):
            properties[tag] = amount
        if (available := f"Available{tag}") in ad:
            properties[available] = ad.lookup(available)  # by the names of the devices' own ads
    properties.pop("Swap", None)
    return properties | {"Cpus": run.slot.cpus, "Disk": run.slot.disk_kib, "Memory": run.slot.memory_mib}


async def send_outputs(run: Run) -> None:
    """Send what goes back; a break of the stream leaves it for the next time."""
    job = run.job
    if job is None or not run.transfers:
        run.on(events.OutputsSent())
        return
    only_streams = run.state.outputs == "streams"
    problems: list[End] = []
    if not await run.live.finish(problems):
        return
    if run.state.outputs == "live":
        run.on(events.OutputsSent(problems[0] if problems else None))
        return
    try:
        try:
            chosen = transfer.choose(job, run.directory.scratch, run.before, run.identity, streams_only=only_streams)
        except transfer.OutputError as error:  # the others go back all the same: they tell what went wrong
            problems.append(error.end)
            chosen = error.found
        away = url_transfer.output_urls(run.job_ad, [output.name for output in chosen if not output.directory])
        if away and (problem := await url_transfer.deliver(run, run.host.plugins, away)) is not None:
            problems.append(problem)
        if not await _send_files(run, [output for output in chosen if output.name not in away], problems):
            return
    except OSError as error:
        problems.append(scratch_failure(error))
    run.on(events.OutputsSent(_named(run, problems[0]) if problems else None))


def _named(run: Run, end: End) -> End:
    """A file that cannot be sent, with the places that it was to move between, worded like HTCondor's."""
    if end.reason_code != TRANSFER_OUTPUT_ERROR or end.reason.startswith("Transfer "):
        return end
    return replace(
        end,
        reason=f"Transfer output files failure at execution point {run.slot.name} while sending files to "
        f"{access_point(run)}. Details: {end.reason}",
    )


def access_point(run: Run) -> str:
    """The access point in words, as the job's GlobalJobId names it."""
    value = lookup(run.job_ad)("GlobalJobId")
    name = value.partition("#")[0].rpartition("@")[2] if isinstance(value, str) else ""
    return f"access point {name}" if name else "the access point"


async def send_checkpoint(run: Run) -> None:
    """Send the files of a checkpoint and say that they are one; a break of the stream leaves it for the next time."""
    job = run.job
    if job is None or not run.transfers:
        run.on(events.CheckpointStored())  # the files are where the next start will look for them
        return
    try:
        chosen = transfer.choose_checkpoint(job, run.directory.scratch, run.before, run.identity)
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
    attributes = usage_ad(run)
    at = run.keeper.result.ended_at if run.keeper.result is not None else run.host.clock.now()
    attributes["NewlyCommittedTime"] = int(max(0.0, at - run.started_at))
    number = run.keeper.checkpoints
    run.say(checkpoint=schedd_pb2.RunCheckpoint(number=number, at=int(at), ad=pack_one(attributes)))


async def _send_files(run: Run, chosen: list[transfer.Output], problems: list[End]) -> bool:
    """Send files piece by piece; False when the stream broke. ``problems``: of those that cannot be read, or sent."""
    if chosen and not run.may_send:
        problems.append(held(NOT_PRIVATE, TRANSFER_OUTPUT_ERROR, errno.EPROTONOSUPPORT))
        return True
    large = sum(output.size for output in chosen) > 4 * transfer.PIECE
    pieces = transfer.pieces(chosen, run.identity, problems)
    loop = asyncio.get_running_loop()
    run.sent.clear(OWN)
    while True:
        piece = await loop.run_in_executor(None, next, pieces, None) if large else next(pieces, None)
        if piece is None:
            return True
        if run.link is None or not run.accepted:
            return False
        if not await run.link.send_piece(schedd_pb2.StarterMessage(run_id=run.run_id, output=piece)):
            return False
        run.bytes_sent += len(piece.data)
        run.sent.add(OWN, int(piece.last and not piece.directory), len(piece.data))


def moment(run: Run) -> Moment:
    """Where the run stands now."""
    return Moment(
        now=run.host.clock.now(),
        started_at=run.started_at,
        pid=run.state.pid,
        suspended=run.state.suspended,
        cgroup=run.cgrouped,
        bytes_received=run.inbox.received if run.inbox is not None else 0,
        bytes_sent=run.bytes_sent,
    )


def send_end(run: Run) -> None:
    """Tell the shadow how the run ended."""
    end = run.state.end
    if end is None:
        return
    if run.user_log is not None:
        run.user_log.ended(end)
    result = run.keeper.result
    attributes = end_ad(run, end) | run.told_by_hook
    attributes["MemoryUsage"] = memory_usage_expression()
    attributes |= _traffic(run)
    at = result.ended_at if result is not None and result.ended_at else run.host.clock.now()
    run.say(
        ended=schedd_pb2.RunEnded(
            how=str(end.how),
            code=end.code,
            ad=pack_one(attributes),
            reason=_sendable(end.reason),
            reason_code=end.reason_code,
            reason_subcode=end.reason_subcode,
            at=int(at),
            core_dumped=end.core,
        )
    )


def end_ad(run: Run, end: End) -> dict[str, Any]:
    """How the run ends and what it has used, as attributes."""
    result = run.keeper.result
    if result is not None:
        result = replace(result, usage=run.keeper.usage())
    attributes = usage.end_attributes(end, result, run.disk, moment(run), run.memory.limit_mib)
    attributes["MemoryUsage"] = memory_usage_expression()
    return attributes | run.measured | _own_words(run)


def _sendable(text: str) -> str:
    """Text for a message: bytes of a file name that are no UTF-8 as question marks."""
    return text.encode("utf-8", "replace").decode()


def tell_gone(run: Run) -> None:
    """Tell the startd that the slot is free."""
    end = run.state.end
    how = {How.EXITED: "exited", How.SIGNALED: "exited", How.HELD: "held", How.EVICTED: "evicted"}
    usage = run.keeper.result.usage if run.keeper.result is not None else None
    left = None
    if run.keeper.result is not None and run.keeper.result.leftovers:
        left = run.host.left.note(run.run_id, run.slot, *CANNOT_KILL)
    now = moment(run)
    gone = starter_pb2.JobGone(
        bytes_received=now.bytes_received,
        bytes_sent=now.bytes_sent,
        how=how.get(end.how, "failed") if end is not None else "evicted",
        broken=left is not None,
        left=left,
        reason=_sendable(end.reason) if end is not None else "",
        code=(end.code if end.by_itself else end.reason_code) if end is not None else 0,
        cpu_s=usage.user_s + usage.system_s if usage is not None else 0.0,
        fetched=bool(run.fetched_for),
        finished=end is not None and run.finished(end),
    )
    run.host.board.post(starter_pb2.JobEvent(run_id=run.run_id, gone=gone))


def usage_ad(run: Run) -> dict[str, Any]:
    """What the job uses, as attributes."""
    attributes = usage.usage_attributes(run.keeper.usage(), run.disk, moment(run))
    attributes["MemoryUsage"] = memory_usage_expression()
    return attributes | run.measured | _own_words(run)


def _traffic(run: Run) -> dict[str, Any]:
    former = lookup(run.job_ad)
    pairs = (("TransferInputStats", run.received), ("TransferOutputStats", run.sent))
    found = {name: traffic.attributes(former(name)) for name, traffic in pairs}
    return {name: numbers for name, numbers in found.items() if numbers}


def _own_words(run: Run) -> dict[str, Any]:
    """Attributes that the job itself has set for the next update."""
    return dict(run.io_proxy.attributes) if run.io_proxy is not None else {}


def update(run: Run) -> None:
    """Tell shadow and startd what the job uses."""
    attributes = usage_ad(run)
    pack = pack_one(attributes)
    run.say(update=common_pb2.AdBatch(pack=pack))
    tell_startd_usage(run, pack)
    run.begin(hooks.updated(run, run.host.settings.hooks, attributes))
    with contextlib.suppress(OSError):
        fresh = run.directory.update_ad.with_suffix(".ad.tmp")
        write_files([(str(fresh), 0o644, None, text(ClassAd(attributes)).encode("utf-8", "surrogateescape"))])
        fresh.rename(run.directory.update_ad)


def tell_startd_usage(run: Run, pack: bytes | None = None) -> None:
    """Tell the startd what the job uses, for its policy."""
    batch = common_pb2.AdBatch(pack=pack if pack is not None else pack_one(usage_ad(run)))
    run.host.board.post(starter_pb2.JobEvent(run_id=run.run_id, usage=batch))

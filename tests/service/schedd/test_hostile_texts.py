"""Texts of users, jobs and execution points make no entries of their own in event logs, daemon logs and histories."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from slotwise.classad import ClassAd, parse_ads, quote
from slotwise.model import job_events as events
from slotwise.model.job_events import Frame, Usage
from slotwise.observe.log import LogFile
from slotwise.schedd.history.epochs import RunRecord
from slotwise.startd import job_history
from slotwise.startd.job_history import JobHistorySettings
from slotwise.starter.job.ads import text as long_form
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

EVENT = "...\n005 (999.000.000) 2026-01-01 00:00:00 Job terminated.\n\t(1) Normal termination (return value 0)\n...\n"
TEXTS = {
    "event": "x\n" + EVENT,
    "event with carriage returns": ("x\n" + EVENT).replace("\n", "\r\n"),
    "event at the beginning": EVENT.removeprefix("...\n"),
    "other line ends": "".join(f"x{c}...{c}009 (999.000.000) " for c in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    "dots": "...",
    "dots at the end": "and so on...",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[1;1H\x9b31m\x08\x08\x7f",
    "record of a run": 'x"\n*** EPOCH ClusterId=999 ProcId=0 RunInstanceId=0 Owner="root"\nOwner = "root"\n',
    "line of a daemon": "x\n11/22/26 13:01:24 999.0: removed: by root\n",
    "a table": "x\n\tPartitionable Resources :    Usage  Request Allocated \n\t   Cpus : 9 9 9\n",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
FRAME = Frame(12, 3, "2026-01-01 00:00:00")


def written(t: str) -> list[tuple[int, str]]:
    """Every entry that there is, with ``t`` in all its texts."""
    usage = Usage(resources={t: (1, 2, 3, t), "Memory": (1, 2, 3, "")})
    return [
        (0, events.submitted(FRAME, "here", t, t, t)),
        (1, events.executing(FRAME, t, t, {t: t, "Cpus": "1"})),
        (4, events.evicted(FRAME, usage=usage, reason=t, code=1)),
        (4, events.evicted(FRAME, usage=usage, reason=t, requeued=(True, 0))),
        (5, events.terminated(FRAME, normal=False, code=9, usage=usage, core=t)),
        (7, events.shadow_exception(FRAME, t)),
        (8, events.generic(FRAME, t)),
        (9, events.aborted(FRAME, t)),
        (12, events.held(FRAME, t, 1, 0)),
        (13, events.released(FRAME, t)),
        (21, events.remote_error(FRAME, t, t, 6, 2)),
        (22, events.disconnected(FRAME, t, t, t)),
        (23, events.reconnected(FRAME, t, t, t)),
        (24, events.reconnect_failed(FRAME, t, t)),
        (33, events.attribute_changed(FRAME, t, t, t)),
        (35, events.cluster_submitted(FRAME, "here", t, t)),
        (36, events.cluster_removed(FRAME, 1, 1, t)),
        (37, events.factory_paused(FRAME, t, 1, 1)),
        (38, events.factory_resumed(FRAME, t)),
        (40, events.transfer(FRAME, "input_started", t)),
    ]


def read(log: Path) -> list[tuple[int, int]]:
    """Number and cluster of each event, as HTCondor's reader takes them."""
    return [(int(event.type), event.cluster) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_entry_of_an_event_log_is_one(text: str, tmp_path: Path) -> None:
    entries = written(text)
    whole = "".join(entry for _, entry in entries)
    assert list(events.split_entries(whole)) == [entry for _, entry in entries]
    assert CONTROL.search(whole) is None
    (tmp_path / "log").write_text(whole)
    assert read(tmp_path / "log") == [(number, 12) for number, _ in entries]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_record_of_a_history_is_one(text: str, tmp_path: Path) -> None:
    ad = ClassAd({"ClusterId": 12, "ProcId": 3, "Owner": "ann", "Note": text, f"N{text}": 1, "List": ["a", text]})
    ad["Expression"] = ClassAd({"Note": text})
    names = {name.lower() for name in ("ClusterId", "ProcId", "Owner", "Note", "List", "Expression")}
    run = RunRecord(12, 3, 0, "ann", 1, pack_ads([ad])).record().data(0)[0].decode()
    path, other = tmp_path / "history", ad.copy()
    other["Owner"] = text
    job_history.write(JobHistorySettings(str(path)), [job_history.history_ad(other, "slot1@ep", "exited", 1, 2)])
    for record, more in ((run, 4), (path.read_text(), 5), (long_form(ad), 1)):
        lines = record.splitlines() if "\n" in record else [record]
        assert CONTROL.search(record) is None
        assert [line.startswith("*** ") for line in lines].count(True) == (record != long_form(ad))
        body = [line for line in lines if not line.startswith("*** ")]
        assert len(body) == len(ad) + more - 1
        found = {line.partition(" = ")[0].lower() for line in body}
        assert names <= found and sum(line.startswith("Owner = ") for line in body) == 1
        (again,) = parse_ads("\n".join(body).encode())
        assert again["ClusterId"] == 12


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_texts_of_a_job_stay_where_they_belong(
    text: str, schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    """From the submission to the removal, with the text in all that a user and an execution point can say."""
    file = LogFile(tmp_path / "SchedLog")
    logging.getLogger().addHandler(file)
    try:
        held = schedd_pb2.RunEnded.HELD
        point.script = lambda ad: (
            Script(how=held, reason=text, reason_code=34, ad={"Said": text})
            if ad["NumShadowStarts"] == 1
            else Script(until_killed=True)
        )
        named: dict[str, Any] = {f"N{text}": 1}
        cluster = await schedd.submit(
            UserLog="j.log", SubmitEventNotes=text, SubmitEventUserNotes=text, JobBatchName=text, JobDescription=text,
            Args=text, Note=text, **named, PeriodicVacateReason=text,
        )  # fmt: skip
        job = f"ClusterId == {cluster}"

        async def act(action: str) -> None:
            request = schedd_pb2.ActRequest(action=action, reason=text)
            request.jobs.ids.append(f"{cluster}.0")
            await schedd.stub.Act(request, metadata=schedd.user)

        async def state(constraint: str) -> None:
            async def reached() -> bool:
                return bool(await schedd.jobs(f"{job} && {constraint}"))

            await schedd.until(reached)

        await schedd.negotiate(point.address)
        await state("JobStatus == 5")
        edit = schedd_pb2.EditRequest(jobs=schedd_pb2.JobSelection(ids=[f"{cluster}.0"]), set={"Note": quote(text)})
        await schedd.stub.Edit(edit, metadata=schedd.user)
        await act("RELEASE")
        await schedd.negotiate(point.address)
        await state("NumJobStarts == 2")
        await act("HOLD")

        async def over() -> bool:
            return not schedd.point.claiming.claim_table.runs

        await schedd.until(over)
        await act("REMOVE")
        await schedd.until_gone()
        await schedd.point.committer._idle.wait()
    finally:
        logging.getLogger().removeHandler(file)
        file.close()
    log = schedd.home.root / "j.log"
    assert read(log) == [(number, cluster) for number in (0, 1, 21, 4, 12, 33, 13, 1, 4, 12, 9)]
    assert CONTROL.search(log.read_text()) is None
    for line in (tmp_path / "SchedLog").read_text().splitlines():
        assert re.match(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d |\t", line), line
        assert not line.startswith("11/22/26 13:01:24 999.0"), line
    assert CONTROL.search((tmp_path / "SchedLog").read_text()) is None

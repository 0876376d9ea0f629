"""Files, holds, policies and claims of running jobs, with a pretended execution point."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import htcondor2
import pytest
from slotwise.classad import ExprTree
from slotwise.wire import tls
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.hostile_expressions import bomb
from tests.support.waiting import until


async def held(schedd: RunningAccessPoint) -> Any:
    """The one job, once it is held."""

    async def is_held() -> bool:
        return len(await schedd.jobs("JobStatus == 5")) == 1

    await schedd.until(is_held)
    return (await schedd.jobs())[0]


def numbers(log: Path) -> list[int]:
    return [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


async def test_inputs_go_out_with_names_of_their_own(
    schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    root = schedd.home.root
    (root / "in.txt").write_text("input")
    (root / "stdin").write_text("typed")
    (root / "prog").write_bytes(b"#!" + b"x" * 2_000_000)
    (root / "tree/sub").mkdir(parents=True)
    (root / "tree/sub/f").write_text("deep")
    seen: dict[str, bytes] = {}

    def script(ad: Any) -> Script:
        for run in point.runs.values():
            seen.update(run.inputs)
        return Script()

    point.script = script
    await schedd.submit(Cmd="prog", TransferExecutable=True, In="stdin", TransferInput="in.txt, tree, tree/")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert {name: len(data) for name, data in seen.items()} == {
        "prog": 2_000_002,
        "stdin": 5,
        "in.txt": 5,
        "tree": 0,
        "tree/sub": 0,
        "tree/sub/f": 4,
        "sub": 0,
        "sub/f": 4,
    }


@pytest.mark.parametrize("listed", ["in.txt", ""])
async def test_a_starter_that_asks_for_inputs_gets_none_before(
    schedd: RunningAccessPoint, point: ExecutionPoint, listed: str
) -> None:
    (schedd.home.root / "in.txt").write_text("input")
    point.asks_for_inputs = True
    await schedd.submit(TransferInput=listed)
    await schedd.negotiate(point.address)

    async def accepted() -> bool:
        return any(run.accepted for run in point.runs.values())

    await schedd.until(accepted)
    (run,) = point.runs.values()
    for number in range(1, 21):
        point.say(run, io=schedd_pb2.RemoteIo(id=number, op="get_attr", name="Owner"))

        async def answered(number: int = number) -> bool:
            return run.answers == number

        await schedd.until(answered)
    assert not run.inputs and not run.ready.is_set()
    point.say(run, need_input=schedd_pb2.FileNeed())
    await schedd.until_gone()
    assert run.inputs == ({"in.txt": b"input"} if listed else {})


async def test_what_a_hook_says_before_the_job_starts_is_in_its_event_log(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """The words and the place are those of HTCondor 25.14.1."""
    point.asks_for_inputs = True
    await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)
    await schedd.until(lambda: any(run.accepted for run in point.runs.values()))
    (run,) = point.runs.values()
    point.say(run, io=schedd_pb2.RemoteIo(id=1, op="message", text="PREPARE_JOB (f7) succeeded: so far\nso good"))
    await schedd.until(lambda: run.answers == 1)
    point.say(run, need_input=schedd_pb2.FileNeed())
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 21, 1, 5]
    entry = (schedd.home.root / "j.log").read_text().split("...\n")[1]
    assert "Message from starter on slot1_1@ep:\n\tPREPARE_JOB (f7) succeeded: so far so good\n" in entry


async def test_an_input_that_cannot_be_read_holds_the_job(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(TransferInput="missing", UserLog="j.log")
    await schedd.negotiate(point.address)
    ad = await held(schedd)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (13, 2)
    assert "missing" in ad["HoldReason"]


@pytest.mark.parametrize(
    ("peer", "transport", "private"),
    [
        ("unix:", b"", True),
        ("unix:/run/schedd.sock", b"", True),
        ("ipv4:127.0.0.1:4000", b"", True),
        ("ipv6:%5B::1%5D:4000", b"", True),
        ("ipv4:192.0.2.7:4000", b"", False),
        ("ipv6:%5B2001:db8::1%5D:4000", b"", False),
        ("ipv4:192.0.2.7:4000", b"ssl", True),
    ],
)
def test_what_nobody_reads_along(peer: str, transport: bytes, private: bool) -> None:
    context = SimpleNamespace(peer=lambda: peer, auth_context=lambda: {"transport_security_type": [transport]})
    assert tls.is_private(context) is private


@pytest.mark.parametrize("ad", [{"EncryptInputFiles": "in.txt"}, {"EncryptOutputFiles": "*"}])
async def test_files_that_are_to_be_encrypted_do_not_go_in_the_clear(
    ad: dict[str, Any], schedd: RunningAccessPoint, point: ExecutionPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (schedd.home.root / "in.txt").write_text("secret")
    monkeypatch.setattr(tls, "is_private", lambda context: False)
    await schedd.submit(TransferInput="in.txt", **ad)
    await schedd.negotiate(point.address)
    job = await held(schedd)
    assert "to be encrypted" in job["HoldReason"] and job["HoldReasonCode"] == 13
    assert not any(run.inputs for run in point.runs.values())


async def test_a_link_to_a_directory_among_the_inputs_holds_the_job(
    schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "round").symlink_to(".")
    await schedd.submit(TransferInput=str(tmp_path / "in"))
    await schedd.negotiate(point.address)
    ad = await held(schedd)
    assert ad["HoldReasonCode"] == 13
    assert "in/round: (errno 40) links to directories are not transferred" in ad["HoldReason"]


async def test_a_missing_working_directory_holds_the_job(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(Iwd="/no/such/place", TransferInput="x")
    await schedd.negotiate(point.address)
    ad = await held(schedd)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (14, 2)


async def test_a_result_that_cannot_be_written_holds_the_job(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(outputs={"_condor_stdout": b"x"})
    await schedd.submit(Out="/proc/no/out")
    await schedd.negotiate(point.address)
    ad = await held(schedd)
    assert ad["HoldReasonCode"] == 12
    assert "/proc/no/out" in ad["HoldReason"]


async def test_a_log_that_cannot_be_written_holds_the_job(schedd: RunningAccessPoint) -> None:
    await schedd.submit(UserLog="/no/such/dir/log")
    ad = await held(schedd)
    assert ad["HoldReasonCode"] == 22
    assert "/no/such/dir/log" in ad["HoldReason"]


async def test_results_are_renamed(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(outputs={"a": b"1", "b": b"2"})
    await schedd.submit(TransferOutputRemaps="a=moved/A")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    root = schedd.home.root
    assert ((root / "moved/A").read_text(), (root / "b").read_text()) == ("1", "2")
    assert not (root / "a").exists()


async def test_retries_end_after_their_number(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(exit_code=1)
    await schedd.submit(
        JobMaxRetries=2,
        OnExitRemove=ExprTree("NumJobCompletions > JobMaxRetries || ExitCode == 0"),
        UserLog="j.log",
    )
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert (ad["NumJobCompletions"], ad["NumJobStarts"], ad["ExitCode"]) == (3, 3, 1)
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 4, 1, 4, 1, 5]


async def test_holds_and_vacates_of_the_execution_point(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    ended = schedd_pb2.RunEnded
    point.script = lambda ad: Script(how=ended.HELD, reason="out of memory", reason_code=34, reason_subcode=102)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)
    ad = await held(schedd)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"], ad["NumHolds"]) == (34, 102, 1)
    assert str(ad.lookup("NumHoldsByReason")) == "[ JobOutOfResources = 1 ]"
    assert str(ad.lookup("NumVacatesByReason")) == "[ JobOutOfResources = 1 ]"
    assert ad["HoldReason"] == ad["VacateReason"] == "Error from slot1_1@ep: out of memory"
    point.script = lambda ad: Script()
    request = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.RELEASE)
    request.jobs.ids.append(str(cluster))
    await schedd.stub.Act(request, metadata=schedd.user)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 21, 4, 12, 13, 1, 5]
    entries = (schedd.home.root / "j.log").read_text().split("...\n")
    assert "Error from starter on slot1_1@ep:\n\tout of memory\n\tCode 34 Subcode 102\n" in entries[2]
    assert "Job was evicted. Code 34 Subcode 102\n" in entries[3]
    assert "\tReason: Error from slot1_1@ep: out of memory\n\tPartitionable Resources" in entries[3]
    (ad,) = await schedd.history()
    assert "VacateReason" not in ad and "VacateReasonCode" not in ad  # why the former run ended


@pytest.mark.parametrize(("code", "subcode"), [(1007, 0), (45, -1000)])
async def test_a_job_that_its_starters_fail_is_not_tried_without_end(
    schedd: RunningAccessPoint, point: ExecutionPoint, code: int, subcode: int
) -> None:
    """Nor is one that goes back to Idle before it executed, by a hold's code whose subcode says so."""
    evicted, starts = schedd_pb2.RunEnded.EVICTED, code >= 1000
    point.script = lambda ad: Script(
        how=evicted, reason="The starter failed", reason_code=code, reason_subcode=subcode, starts=starts
    )
    await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)

    async def cooling() -> bool:
        return bool(await schedd.jobs("JobCoolDownExpiration > 0"))

    await schedd.until(cooling)
    assert await schedd.negotiate(point.address) == 0, "nothing is asked for while the job cools down"
    (ad,) = await schedd.jobs()
    assert (ad["VacateReasonCode"], ad["NumJobCoolDowns"], ad["NumShadowStarts"], ad["JobStatus"]) == (code, 1, 1, 1)


async def test_a_running_job_is_removed_when_its_run_is_over(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(until_killed=True)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)

    async def running() -> bool:
        return bool(await schedd.jobs("NumJobStarts == 1"))

    await schedd.until(running)
    request = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.REMOVE, reason="enough")
    request.jobs.ids.append(f"{cluster}.0")
    await schedd.stub.Act(request, metadata=schedd.user)
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert (ad["JobStatus"], ad["RemoveReason"]) == (3, f"enough (by user {schedd.owner})")
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 4, 9]
    text = (schedd.home.root / "j.log").read_text()
    assert "evicted. Code 1023 Subcode 0\n\t(0) CPU times\n" in text and f"\tReason: {ad['RemoveReason']}\n" in text


@pytest.mark.parametrize("released", [False, True])
async def test_the_hold_of_a_running_job_is_logged_after_its_eviction(
    released: bool, schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.slots = 1
    point.side_take = lambda side, message: None if message.WhichOneof("what") == "kill" else side.take(message)
    point.script = lambda ad: Script(until_killed=ad["NumShadowStarts"] == 1)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)
    log = schedd.home.root / "j.log"

    async def running() -> bool:
        return bool(await schedd.jobs("NumJobStarts == 1"))

    async def over() -> bool:
        return not schedd.point.claiming.claim_table.runs

    await schedd.until(running)
    request = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, reason="enough", subcode=7)
    request.jobs.ids.append(f"{cluster}.0")
    await schedd.stub.Act(request, metadata=schedd.user)
    (ad,) = await schedd.jobs()
    assert ad["JobStatus"] == 5 and numbers(log) == [0, 1]  # what the run has used is not known yet
    if released:
        await schedd.act("RELEASE", f"ClusterId == {cluster}")
    (run,) = point.runs.values()
    run.killed.set()
    if released:
        await schedd.until_gone()
    else:
        await schedd.until(over)
    await schedd.point.committer._idle.wait()
    assert numbers(log) == ([0, 1, 12, 13, 4, 1, 5] if released else [0, 1, 4, 12])
    reason = f"enough (by user {schedd.owner})"
    assert f"Job was held.\n\t{reason}\n\tCode 1 Subcode 7\n" in log.read_text()
    assert "Job was evicted. Code 1 Subcode 7\n" in log.read_text() and f"\tReason: {reason}\n" in log.read_text()
    if not released:
        (ad,) = await schedd.jobs()
        assert (ad["VacateReason"], ad["VacateReasonCode"], ad["VacateReasonSubCode"]) == (reason, 1, 7)
        assert (ad["NumVacates"], str(ad.lookup("NumVacatesByReason"))) == (1, "[ UserRequest = 1 ]")


async def test_a_job_that_is_removed_before_its_held_run_is_over_logs_the_hold_first(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.side_take = lambda side, message: None if message.WhichOneof("what") == "kill" else side.take(message)
    point.script = lambda ad: Script(until_killed=True)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)

    async def running() -> bool:
        return bool(await schedd.jobs("NumJobStarts == 1"))

    await schedd.until(running)
    for verb in ("HOLD", "REMOVE"):
        await schedd.act(verb, f"ClusterId == {cluster}")
    (run,) = point.runs.values()
    run.killed.set()
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 12, 4, 9]


async def test_a_claim_outlives_a_job_that_was_removed_by_force(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """Parsl cancels every job with ``condor_rm`` and ``condor_rm -forcex``, one right after the other."""
    point.slots = 1
    point.side_take = lambda side, message: None if message.WhichOneof("what") == "kill" else side.take(message)
    point.script = lambda ad: Script(until_killed=ad["ClusterId"] == cluster)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)

    async def running() -> bool:
        return bool(await schedd.jobs("NumJobStarts == 1"))

    await schedd.until(running)
    assert schedd.point.run_history.is_kept
    await schedd.act("REMOVE", f"ClusterId == {cluster}")
    await schedd.act("REMOVE_FORCE", f"ClusterId == {cluster}")
    (ad,) = await schedd.history()
    assert (ad["JobStatus"], ad["RemoveReason"]) == (3, f"via condor_rm -forcex (by user {schedd.owner})")
    await schedd.submit(UserLog="next.log")
    (run,) = point.runs.values()
    run.killed.set()  # the job dies only now
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 9]
    assert numbers(schedd.home.root / "next.log") == [0, 1, 5]

    async def idle() -> bool:
        return not point.claims and not point.runs and not schedd.point.claiming.claim_table.claims

    await schedd.until(idle)


async def test_suspend_continue_and_vacate(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(until_killed=ad["NumShadowStarts"] == 1)
    cluster = await schedd.submit(UserLog="j.log")
    await schedd.negotiate(point.address)
    act = schedd_pb2.ActRequest

    async def ask(action: int) -> None:
        request = schedd_pb2.ActRequest(action=action)  # type: ignore[arg-type]
        request.jobs.ids.append(f"{cluster}.0")
        reply = await schedd.stub.Act(request, metadata=schedd.user)
        assert dict(reply.totals) == {"success": 1}

    def status(number: int) -> Any:
        async def has() -> bool:
            return bool(await schedd.jobs(f"JobStatus == {number} && NumJobStarts == 1"))

        return has

    await schedd.until(status(2))
    await ask(act.SUSPEND)
    await schedd.until(status(7))
    await ask(act.CONTINUE)
    await schedd.until(status(2))
    await ask(act.VACATE)
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 10, 11, 4, 1, 5]


async def test_dollar_references_are_filled_in_from_the_slot(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    seen: list[str] = []

    def script(ad: Any) -> Script:
        seen.append(ad["Arguments"])
        return Script()

    point.script = script
    await schedd.submit(Arguments="$$(Memory) $$(Nothing:none) $$([Cpus + 1])")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert seen[0] == "1024 none 2"
    (ad,) = await schedd.history()
    kept = {name: ad[name] for name in ad if name.startswith(("MATCH_", "Memory", "Cpus"))}
    assert kept | {"MATCH_Memory": 1024, "MATCH_Nothing": "none", "MATCH_EXP_Arguments": "1024 none 2"} == kept
    assert (ad["CpusProvisioned"], ad["MemoryProvisioned"]) == (1, 1024)
    assert ad["FirstJobMatchDate"] == ad["JobStartDate"] and ad["InitialWaitDuration"] >= 0


async def test_results_that_take_long_to_come_are_part_of_the_run(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """The job ends, its results come later: CompletionDate is when they are in place, as in HTCondor."""
    point.script = lambda ad: Script(outputs={"a": b"1"}, ended_before_s=10)
    await schedd.submit()
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert ad["TransferOutFinished"] >= ad["TransferOutStarted"] > 0 and ad["NumOutputTransferStarts"] == 1
    assert ad["CompletionDate"] == ad["TransferOutFinished"]
    assert ad["ActivationTeardownDuration"] >= 9
    assert ad["BytesSent"] == 1.0


async def test_a_log_tells_of_attributes_of_the_job_with_each_event(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(JobAdInformationAttrs="JobStatus, Twice, Nothing", JobPrio=4, Twice=ExprTree("JobPrio * 2"))
    await schedd.submit(UserLog="j.log", JobAdInformationAttrs="JobStatus, Twice, Nothing", Twice=ExprTree("6 * 2"))
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    log = schedd.home.root / "j.log"
    assert numbers(log) == [0, 28, 1, 28, 5, 28]
    text = log.read_text()
    assert [text.count(f"JobStatus = {n}\n") for n in (1, 2, 4)] == [1, 1, 1]
    assert text.count("Twice = 12\n") == 3 and "Nothing" not in text


#: Back-tracks without end.
PATTERN = f'regexp("(a|aa)+$", "{"a" * 60}b")'


@pytest.mark.parametrize("costly", [bomb("Costly"), {"Costly": ExprTree(PATTERN)}], ids=["definitions", "pattern"])
async def test_attributes_that_take_too_many_steps_are_left_out_of_a_log(
    schedd: RunningAccessPoint,
    costly: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from slotwise.schedd.storage import committer

    monkeypatch.setattr(committer, "_INFORMATION_STEPS", 5_000)
    await schedd.submit(UserLog="j.log", JobAdInformationAttrs="JobStatus, Costly, JobPrio", JobPrio=4, **costly)
    log = schedd.home.root / "j.log"
    await until(lambda: numbers(log) == [0, 28])
    text = log.read_text()
    assert "JobStatus = 1\n" in text and "Costly" not in text
    assert "event 028 lacks attributes that take more than 5000 steps to evaluate" in caplog.text


async def test_amounts_are_rounded_when_they_are_submitted_and_edited(schedd: RunningAccessPoint) -> None:
    """As by 25.14.1, whose answers these are."""
    cluster = await schedd.submit(ResidentSetSize=4816, ImageSize=101, CpusUsage=1.26, DiskUsage=3333, NumCkpts=3)
    (ad,) = await schedd.jobs()
    assert [ad.get(name) for name in ("ResidentSetSize", "ImageSize", "CpusUsage", "DiskUsage", "NumCkpts")] == [
        5000, 125, 1.26, 3500, 10000
    ]  # fmt: skip
    raw = ("ResidentSetSize_RAW", "ImageSize_RAW", "CpusUsage_RAW", "DiskUsage_RAW", "NumCkpts_RAW")
    assert [ad.get(name) for name in raw] == [4816, 101, None, 3333, 3]
    which = schedd_pb2.JobSelection(ids=[str(cluster)])
    await schedd.stub.Edit(schedd_pb2.EditRequest(jobs=which, set={"ResidentSetSize": "7777"}), metadata=schedd.user)
    (ad,) = await schedd.jobs()
    assert (ad["ResidentSetSize"], ad["ResidentSetSize_RAW"]) == (10000, 7777)


async def test_references_that_an_edit_brings_are_filled_in(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    cluster = await schedd.submit(Arguments="plain")
    which = schedd_pb2.JobSelection(ids=[str(cluster)])
    await schedd.stub.Edit(schedd_pb2.EditRequest(jobs=which, set={"Arguments": '"$$(Memory)"'}), metadata=schedd.user)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert ad["MATCH_EXP_Arguments"] == "1024"


async def test_a_dollar_reference_without_a_value_holds_the_job(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    cluster = await schedd.submit(Arguments="$$(Nothing)", UserLog="j.log")
    await schedd.negotiate(point.address)

    async def held() -> bool:
        return bool(await schedd.jobs("JobStatus == 5"))

    await schedd.until(held)
    (ad,) = await schedd.jobs()
    assert ad["HoldReason"].startswith("Cannot expand $$ expression (Nothing).") and ad["HoldReasonCode"] == 0
    await schedd.stub.Edit(
        schedd_pb2.EditRequest(jobs=schedd_pb2.JobSelection(ids=[str(cluster)]), set={"Arguments": '"$$(Memory)"'}),
        metadata=schedd.user,
    )
    await schedd.stub.Act(
        schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.RELEASE, jobs=schedd_pb2.JobSelection(ids=[str(cluster)])),
        metadata=schedd.user,
    )
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert numbers(schedd.home.root / "j.log") == [0, 12, 33, 13, 1, 5]


async def test_completed_jobs_may_stay_in_the_queue(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    cluster = await schedd.submit(LeaveJobInQueue=True)
    await schedd.negotiate(point.address)

    async def completed() -> bool:
        return bool(await schedd.jobs("JobStatus == 4"))

    await schedd.until(completed)
    request = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.REMOVE)
    request.jobs.ids.append(str(cluster))
    await schedd.stub.Act(request, metadata=schedd.user)
    assert await schedd.jobs() == []
    (ad,) = await schedd.history()
    assert (ad["JobStatus"], ad["ExitCode"]) == (4, 0)


async def test_periodic_policies_act_on_the_queue(schedd: RunningAccessPoint) -> None:
    await schedd.submit(1, PeriodicHold=ExprTree("JobPrio == 3"), JobPrio=3, PeriodicHoldReason="three")
    await schedd.submit(1, PeriodicRemove=ExprTree("JobStatus == 1"))
    await schedd.submit(1)
    assert schedd.point.periodic.evaluate() == 2
    ads = await schedd.jobs()
    assert [(ad["JobStatus"], ad.get("HoldReason")) for ad in ads] == [(5, "three"), (1, None)]


async def test_jobs_submitted_on_hold_wait_with_code_15(schedd: RunningAccessPoint) -> None:
    await schedd.submit(2, JobStatus=5, UserLog="j.log")
    ads = await schedd.jobs()
    assert [(ad["JobStatus"], ad["HoldReasonCode"]) for ad in ads] == [(5, 15)] * 2
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 0]  # as in HTCondor, the log does not mention the hold


async def test_files_of_an_evicted_run_go_to_the_next_one(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    """ON_EXIT_OR_EVICT: what the starter sends of an evicted run is kept and handed to the next."""
    seen: list[dict[str, bytes]] = []

    def script(ad: Any) -> Script:
        for run in point.runs.values():
            seen.append(dict(run.inputs))
        if ad["NumShadowStarts"] == 1:
            return Script(how=schedd_pb2.RunEnded.EVICTED, reason_code=1010, outputs={"state": b"half", "d/x": b"1"})
        return Script(outputs={"state": b"whole"})

    point.script = script
    await schedd.submit(WhenToTransferOutput="ON_EXIT_OR_EVICT")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert {"state": b"half", "d": b"", "d/x": b"1"} in seen
    assert (schedd.home.root / "state").read_bytes() == b"whole"
    assert not (schedd.home.root / "d").exists()

    async def removed() -> bool:
        return not list(schedd.home.spool.glob("jobs/*/*"))

    await schedd.until(removed)


async def test_more_than_the_job_may_transfer_holds_it(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    (schedd.home.root / "big").write_bytes(b"x" * 3_000_000)
    await schedd.submit(TransferInput="big", MaxTransferInputMB=2)
    await schedd.negotiate(point.address)
    assert (await held(schedd))["HoldReasonCode"] == 32


async def test_more_than_the_job_may_bring_back_holds_it(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(outputs={"big": b"x" * 200_000})
    await schedd.submit(MaxTransferOutputMB=0.1)
    await schedd.negotiate(point.address)
    assert (await held(schedd))["HoldReasonCode"] == 33
    assert not (schedd.home.root / "big").exists()


async def test_a_job_out_of_memory_asks_for_more_and_runs_again(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    ended = schedd_pb2.RunEnded

    def script(ad: Any) -> Script:
        if ad["RequestMemory"] < 200:
            return Script(how=ended.HELD, reason="out of memory", reason_code=34, reason_subcode=102)
        return Script()

    point.script = script
    await schedd.submit(
        TransformOnEvict="RequestMemory",
        TransformBody_RequestMemory="REQUIREMENTS VacateReasonSubCode == 102\x1eSET RequestMemory 256",
    )
    await schedd.negotiate(point.address)

    async def done() -> bool:
        await schedd.negotiate(point.address)
        return not await schedd.jobs()

    await schedd.until(done)
    (ad,) = await schedd.history()
    assert (ad["RequestMemory"], ad["NumHolds"], ad["NumJobStarts"]) == (256, 0, 2)


async def test_a_stream_that_breaks_while_inputs_flow_leaves_no_thread_waiting(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """A starter that stops reading and goes away: the inputs come again on its next stream, all of them."""
    (schedd.home.root / "big").write_bytes(b"x" * 40_000_000)
    await schedd.submit(TransferInput="big")
    takes, broken, sizes = point.side_take, list[Any](), list[int]()

    def take(side: Any, message: Any) -> None:
        if not broken and message.WhichOneof("what") == "input":
            broken.append(True)
            raise ConnectionError("the starter dies")
        takes(side, message)
        if message.WhichOneof("what") == "inputs_complete":
            sizes.append(len(point.runs[message.run_id].inputs["big"]))

    point.side_take = take
    point.script = lambda ad: Script()
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert broken
    assert sizes == [40_000_000]

    async def over() -> bool:
        return not schedd.point.transfers.tasks

    await schedd.until(over)


async def test_reasons_of_policies_name_the_expression(tmp_path: Path) -> None:
    """The texts are those that HTCondor 25.14.1 wrote for the same jobs."""
    knobs = {"SYSTEM_PERIODIC_HOLD_NAMES": "Big", "SYSTEM_PERIODIC_HOLD_Big": "Big =?= true"}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    try:
        await schedd.submit(PeriodicHold=ExprTree("JobStatus == 1 && 1 < 2"))
        await schedd.submit(Big=True)
        assert schedd.point.periodic.evaluate() == 2
        assert [ad["HoldReason"] for ad in await schedd.jobs()] == [
            "The job attribute PeriodicHold expression 'JobStatus == 1 && 1 < 2' evaluated to TRUE",
            "The system macro SYSTEM_PERIODIC_HOLD expression 'Big =?= true' evaluated to TRUE",
        ]
    finally:
        await schedd.stop()


async def test_usage_is_rounded_as_the_configuration_says(tmp_path: Path) -> None:
    knobs = {"SCHEDD_ROUND_ATTR_ImageSize": "3", "SCHEDD_ROUND_ATTR_ResidentSetSize": "0"}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        point.script = lambda ad: Script(ad={"ImageSize": 12345, "ResidentSetSize": 4321, "DiskUsage": 101})
        await schedd.submit()
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        (ad,) = await schedd.history()
        sizes = ("ImageSize", "ImageSize_RAW", "ResidentSetSize", "ResidentSetSize_RAW", "DiskUsage", "DiskUsage_RAW")
        assert [ad.get(name) for name in sizes] == [13000, 12345, 4321, None, 125, 101]
    finally:
        await point.stop()
        await schedd.stop()


async def test_what_a_job_used_most_does_not_fall(tmp_path: Path) -> None:
    """HTCondor 25.14: a job with RSS of 3 GB that runs again keeps its RequestMemory over MemoryUsage; its disk is the
    run's."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        point.script = lambda ad: Script(ad={"ImageSize": 12345, "ResidentSetSize": 4321, "DiskUsage": 101})
        await schedd.submit(ImageSize=20, ResidentSetSize=3145728, DiskUsage=40000)
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        (ad,) = await schedd.history()
        sizes = ("ImageSize_RAW", "ResidentSetSize_RAW", "DiskUsage_RAW")
        assert [ad.get(name) for name in sizes] == [12345, 3145728, 101]
    finally:
        await point.stop()
        await schedd.stop()

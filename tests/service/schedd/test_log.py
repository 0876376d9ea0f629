"""What SchedLog says, with a real schedd: who did what to which job from where, and what was refused and why."""

from __future__ import annotations

import logging
import re
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.config.debug import CATEGORIES
from slotwise.observe.log import ALSO_ALWAYS
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire import call
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


class Lines:
    """The messages that the default level writes."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        for name in CATEGORIES:
            caplog.set_level(ALSO_ALWAYS, logger=name)
        caplog.set_level(logging.INFO)

    def all(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records if record.levelno >= logging.INFO]

    def of(self, job: str) -> list[str]:
        """The lines in which ``job`` is a word, as ``grep -w`` finds them."""
        return [line for line in self.all() if re.search(rf"(?<![\w.]){re.escape(job)}(?!\w)", line)]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Lines:
    # Refusals of one caller are bounded, and other tests in this process have made some.
    monkeypatch.setattr(call, "refusals", call.RefusalLog())
    return Lines(caplog)


async def test_a_submission_is_one_line_however_large(schedd: RunningAccessPoint, log: Lines) -> None:
    n = await schedd.submit(5000)
    assert log.all() == [
        f"{n}.0-{n}.4999 (cluster {n}, 5000 jobs): submitted by {schedd.owner}@here from a local socket"
    ]
    single = await schedd.submit()
    assert log.of(f"{single}.0") == [
        f"{single}.0 (cluster {single}, 1 job): submitted by {schedd.owner}@here from a local socket"
    ]


async def test_submissions_of_a_stream_and_the_refused_ones_among_them_are_told(
    schedd: RunningAccessPoint, log: Lines
) -> None:
    sound = pack_ads([ClassAd({"Cmd": "/bin/true", "Iwd": "/tmp", "JobUniverse": 5})])
    broken = pack_ads([ClassAd({"Cmd": "/bin/true", "JobUniverse": 9})])
    one = schedd_pb2.ProcBatch(count=1)
    bundles = [
        schedd_pb2.SubmitBundle(clusters=[schedd_pb2.ClusterSubmission(cluster_ad=ad, procs=one)])
        for ad in (sound, broken, sound)
    ]
    call = schedd.stub.SubmitMany(metadata=schedd.user)
    await call.write(schedd_pb2.SubmitFrame(submissions=bundles))
    await call.done_writing()
    answers = (await call.read()).answers
    assert [answer.HasField("error") for answer in answers] == [False, True, False]
    assert [line for line in log.all() if "submitted by" in line] == [
        f"{n}.0 (cluster {n}, 1 job): submitted by {schedd.owner}@here from a local socket" for n in (1, 2)
    ]
    (refused,) = [line for line in log.all() if "refused" in line]
    assert refused.startswith(f"refused Schedd/SubmitMany of {schedd.owner}@here from a local socket: ")
    assert "universe grid" in refused


async def test_a_job_can_be_followed_through_an_eviction_to_its_end(
    schedd: RunningAccessPoint, point: ExecutionPoint, log: Lines
) -> None:
    point.script = lambda ad: (
        Script(how=schedd_pb2.RunEnded.EVICTED, reason_code=1011, reason="PREEMPT was true")
        if ad["NumShadowStarts"] == 1
        else Script(exit_code=3)
    )
    cluster = await schedd.submit(2)
    await schedd.negotiate(point.address)
    await schedd.until_gone()

    async def told() -> bool:  # lines follow the commit
        return sum("exited with" in line for line in log.all()) == 2

    await schedd.until(told)
    slot, job = r"slot1_\d@ep", rf"{cluster}\.1"
    expected = [
        rf"{cluster}\.0 {job}: matched with slot1@ep at \S+, requesting its claim for {schedd.owner}@here",
        rf"{job}: claimed {slot} for {schedd.owner}@here",
        rf"{job}: started on {slot} \(run {job}#1\)",
        rf"{job}: evicted from {slot} after \d+ s \(run {job}#1\): PREEMPT was true \(code 1011, subcode 0\)",
        rf"{job}: started on {slot} \(run {job}#2\)",
        rf"{job}: exited with status 3 on {slot} after \d+ s \(run {job}#2\)",
    ]
    lines = [line for line in log.of(f"{cluster}.1") if "submitted" not in line]
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line
    assert any(re.fullmatch(rf"released the claim of {slot} for .*: no job is left for the slot", x) for x in log.all())


async def test_a_failure_of_the_schedd_is_found_by_the_jobs_id(
    schedd: RunningAccessPoint, point: ExecutionPoint, log: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no end")

    monkeypatch.setattr(schedd.point.shadows._endings, "finish", broken)
    cluster = await schedd.submit()
    await schedd.negotiate(point.address)

    async def told() -> bool:
        return any("no end" in line for line in log.all())

    await schedd.until(told)
    line = next(line for line in log.all() if "no end" in line)
    job = f"{cluster}.0"
    assert line == f"{job}: processing 'ended' of its starter (run {job}#1) failed: RuntimeError: no end"


async def test_what_users_do_is_told_with_their_names_and_addresses(schedd: RunningAccessPoint, log: Lines) -> None:
    cluster = await schedd.submit(3)
    me, job = f"{schedd.owner}@here", f"{cluster}.1"
    stub, user = schedd.stub, schedd.user
    act = schedd_pb2.ActRequest

    def asked(action: schedd_pb2.ActRequest.Action, **selection: Any) -> schedd_pb2.ActRequest:
        return act(action=action, jobs=schedd_pb2.JobSelection(**selection), reason="because")

    await stub.Act(asked(act.HOLD, ids=[job]), metadata=user)
    await stub.Act(asked(act.RELEASE, constraint=f"ClusterId == {cluster}"), metadata=user)
    edit = schedd_pb2.EditRequest(
        jobs=schedd_pb2.JobSelection(ids=[job]),
        set={"RequestMemory": "77", "Environment": '"PASSWORD=hunter2"', "Env": '"x=hunter2"'},
    )
    await stub.Edit(edit, metadata=user)
    await stub.Act(asked(act.REMOVE, ids=[f"{cluster}.0", job]), metadata=schedd.as_user("eve"))
    await stub.Act(asked(act.REMOVE, ids=[job]), metadata=user)
    lines = [line for line in log.all() if "submitted" not in line]
    sets = next(line for line in lines if line.startswith(f"{job}: ") and "set by" in line)
    assert set(re.split(r", |: ", sets.removesuffix(f" set by {me}"))) == {job, "RequestMemory", "Environment", "Env"}
    edited = next(line for line in lines if line.startswith("edit of"))
    assert edited.startswith(f"edit of {job} by {me} from a local socket: ") and edited.endswith(": 1 success")
    assert "RequestMemory = 77" in edited and "hunter2" not in "".join(lines)
    assert [line for line in lines if line not in (sets, edited)] == [
        f"{job}: put on hold: because (by user {schedd.owner}) (code 1, subcode 0)",
        f"hold of {job} by {me} from a local socket: 1 success",
        f"{job}: released: because (by user {schedd.owner})",
        f"release of jobs with ClusterId == {cluster} by {me} from a local socket: 1 success",
        f"remove of {cluster}.0 {job} by eve@here from a local socket: 2 permission denied",
        f"{job}: removed: because (by user {schedd.owner})",
        f"remove of {job} by {me} from a local socket: 1 success",
    ]


async def test_a_refused_submission_and_a_refused_token_are_told(schedd: RunningAccessPoint, log: Lines) -> None:
    ad = pack_ads([ClassAd({"Cmd": "/bin/true", "JobUniverse": 9})])
    bundle = schedd_pb2.SubmitBundle(
        clusters=[schedd_pb2.ClusterSubmission(cluster_ad=ad, procs=schedd_pb2.ProcBatch(count=1))]
    )
    for shown in (schedd.user, (), (("authorization", "Bearer forged"),)):
        with pytest.raises(grpc.RpcError):
            await schedd.stub.SubmitOne(bundle, metadata=shown)
    reader = schedd.token_file("reader", "READ").read_text()
    with pytest.raises(grpc.RpcError):
        await schedd.stub.SubmitOne(bundle, metadata=(("authorization", f"Bearer {reader}"),))
    lines = log.all()
    assert len(lines) == 4
    assert lines[0].startswith(f"refused Schedd/SubmitOne of {schedd.owner}@here from a local socket: ")
    assert "universe grid" in lines[0]
    for line in lines[1:3]:
        assert line.startswith(
            "PERMISSION DENIED to an unauthenticated user from a local socket for Schedd/SubmitOne: "
        )
    assert lines[3].startswith("PERMISSION DENIED to reader@here from a local socket for Schedd/SubmitOne: ")
    assert "WRITE" in lines[3] and "forged" not in "".join(lines) and reader not in "".join(lines)


async def test_commands_and_who_was_authenticated_are_told_when_selected(
    schedd: RunningAccessPoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="D_SECURITY")
    caplog.set_level(logging.DEBUG, logger="D_COMMAND")
    await schedd.submit()
    await schedd.jobs()
    with pytest.raises(grpc.RpcError):
        await schedd.stub.Act(schedd_pb2.ActRequest(), metadata=schedd.user)

    async def returned() -> bool:
        return "return from Schedd/Act" in caplog.text

    await schedd.until(returned)  # the caller may hear of the end of its call first
    said = [record.getMessage() for record in caplog.records if record.name.startswith("D_")]
    me = f"{schedd.owner}@here"
    assert f"received command Schedd/SubmitOne from {me} a local socket, access level WRITE" in said
    assert f"authenticated {me} from a local socket: levels READ WRITE" in said
    assert "received command Schedd/Query from condor@here a local socket, access level READ" in said
    returns = [line for line in said if line.startswith("return from")]
    assert [re.sub(r"[\d.]+ ms", "T", line) for line in returns] == [
        f"return from Schedd/SubmitOne of {me}: OK in T",
        "return from Schedd/Query of condor@here: OK in T",
        f"return from Schedd/Act of {me}: INVALID_ARGUMENT in T",
    ]
    assert not any(schedd._user in line or schedd.daemon_token in line for line in said)


async def test_negotiators_rejections_are_told_when_their_reason_changes(
    schedd: RunningAccessPoint, log: Lines
) -> None:
    cluster = await schedd.submit()
    batch = schedd_pb2.MatchBatch(cycle=1, negotiator_name="central")
    group = batch.submitters.add(submitter=f"{schedd.owner}@here")
    query = schedd_pb2.ResourceRequestsQuery(significant_attributes=["RequestCpus"])
    async for reply in schedd.stub.ResourceRequests(query, metadata=schedd.daemon):
        for ad in unpack_ads(reply.pack) if reply.pack else []:
            group.rejections.add(autocluster_id=ad["AutoClusterId"], reason="no match found", count=1)
    for _ in range(3):
        await schedd.stub.OfferMatches(batch, metadata=schedd.daemon)

    def rejected() -> list[str]:
        return [line for line in log.of(f"{cluster}.0") if "rejected" in line]

    async def told() -> bool:  # once it is durable, which the negotiator does not wait for
        return bool(rejected())

    await schedd.until(told)
    assert rejected() == [f"{cluster}.0: rejected by the negotiator central: no match found"]

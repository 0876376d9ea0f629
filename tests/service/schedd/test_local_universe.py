"""Jobs of the scheduler and local universes: run once, as their owner, with nothing of the schedd's in their hands."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.clock import ManualClock
from slotwise.execution import launcher
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import Doom, RunningAccessPoint
from tests.support.hostile_expressions import bomb

SCHEDULER, LOCAL = 7, 12


class World:
    """An access point, and a user of it who is not root; ``work`` is the user's directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        is_root = os.geteuid() == 0
        self.user = "nobody" if is_root else pwd.getpwuid(os.geteuid()).pw_name
        self.work = root / "work"
        self.work.mkdir()
        if is_root:
            shutil.chown(self.work, self.user)
        self.schedd = self.point()

    def point(self) -> RunningAccessPoint:
        running = RunningAccessPoint(self.root / "pool")
        running.owner = self.user
        running._user = running.secrets.mint(f"{self.user}@here", ["WRITE"], now=1)
        return running

    async def submit(self, script: str, universe: int = SCHEDULER, **attributes: Any) -> int:
        own = {
            "JobUniverse": universe,
            "Cmd": "/bin/sh",
            "Arguments": f"-c '{script}'",
            "Iwd": str(self.work),
            "Out": "out",
            "Err": "err",
            "UserLog": "job.log",
            **attributes,
        }
        return await self.schedd.submit(**own)

    def text(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""

    async def until_file(self, name: str, lines: int = 1) -> None:
        async def there() -> bool:
            return self.text(name).count("\n") >= lines

        await self.schedd.until(there)

    async def until_status(self, status: int) -> dict[str, Any]:
        async def so() -> bool:
            jobs = await self.schedd.jobs()
            return bool(jobs) and all(job["JobStatus"] == status for job in jobs)

        await self.schedd.until(so)
        return dict((await self.schedd.jobs())[0])

    async def logged(self) -> list[int]:
        """Numbers of the events, once all that was promised is written."""
        await self.schedd.point.committer._idle.wait()
        return [int(line[:3]) for line in self.text("job.log").splitlines() if line[:1] == "0" and line[3:5] == " ("]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    # Not below pytest's own directory, which other users cannot reach.
    root = Path(tempfile.mkdtemp(prefix="slotwise-local-"))
    root.chmod(0o755)
    made = World(root)
    await made.schedd.start()
    yield made
    await made.schedd.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("universe", [SCHEDULER, LOCAL])
async def test_a_job_runs_to_its_end(world: World, universe: int) -> None:
    await world.submit("echo hello; echo oops >&2; exit 3", universe)
    await world.schedd.until_gone()
    (ad,) = await world.schedd.history()
    assert (ad["JobStatus"], ad["ExitCode"], ad["ExitBySignal"]) == (4, 3, False)
    assert (ad["NumJobStarts"], ad["JobRunCount"], "RemoteHost" in ad) == (1, 1, False)
    assert (world.text("out"), world.text("err")) == ("hello\n", "oops\n")
    assert await world.logged() == [0, 1, 5]
    owner = pwd.getpwnam(world.user).pw_uid
    assert (world.work / "out").stat().st_uid == owner


async def test_a_users_limit_holds_for_each_of_the_two_universes_by_itself(world: World) -> None:
    """As in HTCondor: with MaxJobsRunning = 1 a DAG and a node of it run."""
    edit = schedd_pb2.UsersEdit(what="EDIT", names=[f"{world.user}@here"], set={"MaxJobsRunning": "1"})
    await world.schedd.stub.EditUsers(schedd_pb2.UsersEdit(what="ADD", names=edit.names), metadata=world.schedd.daemon)
    await world.schedd.stub.EditUsers(edit, metadata=world.schedd.daemon)
    for universe in (SCHEDULER, SCHEDULER, LOCAL, LOCAL):
        alone = f"mkdir busy{universe} || echo >> overlap"
        await world.submit(
            f"cd {world.work}; {alone}; while [ ! -e go ]; do sleep 0.1; done; rmdir busy{universe}; echo >> done",
            universe,
            Out="/dev/null",
        )

    async def both_run() -> bool:
        return all((world.work / f"busy{universe}").exists() for universe in (SCHEDULER, LOCAL))

    await world.schedd.until(both_run)
    running = [job["JobUniverse"] for job in await world.schedd.jobs("JobStatus == 2")]
    assert sorted(running) == [SCHEDULER, LOCAL]
    (world.work / "go").touch()
    await world.schedd.until_gone()
    assert (world.text("done").count("\n"), world.text("overlap")) == (4, "")


async def test_nothing_of_the_schedd_is_in_a_jobs_hands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of its environment, no open file, no group or right of root's."""
    monkeypatch.setenv("SECRET_OF_SCHEDD", "x")
    await world.submit('env; ls /proc/self/fd | tr -d "[:space:]"; echo; id -u; id -G; ulimit -n', Environment="A=b")
    await world.schedd.until_gone()
    lines = world.text("out").splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names <= {"A", "CONDOR_ID", "_CONDOR_JOB_AD", "SLOTWISE_HOME", "CONDOR_CONFIG", "_SLOTWISE_FAMILY", "PWD"}
    assert lines[-4] == "0123", "3 is ls's own"
    entry = pwd.getpwnam(world.user)
    groups = {str(group) for group in os.getgrouplist(world.user, entry.pw_gid)}
    if os.geteuid() == 0:
        assert lines[-3].split()[-1] == str(entry.pw_uid)
        assert set(lines[-2].split()) == groups
    assert int(lines[-1]) <= 1024


async def test_its_ad_is_for_its_owner_alone(world: World) -> None:
    """The environment of a job is in its ad, and what is there may be a secret."""
    await world.submit("echo $_CONDOR_JOB_AD; sleep 60", LOCAL)
    await world.until_file("out")
    path = Path(world.text("out").strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert path.stat().st_uid == pwd.getpwnam(world.user).pw_uid
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()

    async def cleared() -> bool:
        return not path.parent.exists()

    await world.schedd.until(cleared)


@pytest.mark.parametrize("owner", ["root", "daemon"])
async def test_a_job_of_another_account_does_not_run(world: World, owner: str) -> None:
    """Not as root, whatever SLOTWISE_MIN_UID says; and without root's rights as nobody but the schedd's own user."""
    if owner == "daemon" and os.geteuid() == 0:
        await world.schedd.stop()
        await world.schedd.start(SLOTWISE_MIN_UID="1000")
        world.schedd._user = world.schedd.secrets.mint("root@here", ["WRITE"], now=1)
        world.schedd.user = world.schedd.as_user("daemon")
        with pytest.raises(grpc.aio.AioRpcError, match="SLOTWISE_MIN_UID"):
            await world.submit("id -u > ran")
        return
    world.schedd.user = world.schedd.as_user(owner)
    await world.submit("id -u > ran", UserLog="")
    ad = await world.until_status(5)
    assert ad["HoldReasonCode"] == 23
    assert ad["HoldReason"].startswith(f"Unable to switch to user: {owner}@here")
    assert not (world.work / "ran").exists()


async def test_a_user_without_an_account_is_held(world: World) -> None:
    world.schedd.user = world.schedd.as_user("noone-of-this-name")
    await world.submit("echo x > ran", UserLog="")
    assert (await world.until_status(5))["HoldReasonCode"] == 23


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("commit_last", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("after", range(4))
async def test_killed_at_a_commit(world: World, after: int, commit_last: bool) -> None:
    """However the schedd dies, the job runs once and its end is found."""
    doom = Doom(world.schedd.point.store, after + 1, commit_last=commit_last)
    await world.submit("echo run >> ran; sleep 0.3; echo end >> ran")
    waits = [asyncio.ensure_future(doom.dead.wait()), asyncio.ensure_future(world.schedd.until_gone())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    await world.schedd.kill()
    await world.schedd.start()
    await world.schedd.until_gone()
    (ad,) = await world.schedd.history()
    assert (ad["JobStatus"], ad["ExitCode"]) == (4, 0)
    assert world.text("ran") == "run\nend\n"
    assert await world.logged() == [0, 1, 5]


async def test_a_job_that_ends_while_the_schedd_is_away_is_found(world: World) -> None:
    await world.submit("echo run >> ran; while test ! -e go; do sleep 0.05; done; exit 4")
    await world.until_file("ran")
    await world.schedd.kill()
    (world.work / "go").touch()
    root = world.schedd.home.execute.parent / "local_univ_execute"
    assert list(root.glob("dir_*"))
    await asyncio.sleep(0.3)
    await world.schedd.start()
    await world.schedd.until_gone()
    (ad,) = await world.schedd.history()
    assert (ad["ExitCode"], world.text("ran")) == (4, "run\n")

    async def cleared() -> bool:
        return not list(root.glob("dir_*"))

    await world.schedd.until(cleared)


async def test_removed_while_the_schedd_is_away_from_its_keeper(world: World) -> None:
    """A removal that was committed but not said to the keeper is said by the next schedd."""
    await world.submit('trap "echo usr1 > got; exit 0" USR1; echo run > ran; while true; do sleep 0.05; done',
                       RemoveKillSig="SIGUSR1")  # fmt: skip
    await world.until_file("ran")
    world.schedd.point.committer.on_kills = None
    await world.schedd.act("REMOVE", "true")
    await world.schedd.kill()
    await world.schedd.start()
    await world.schedd.until_gone()
    assert world.text("got") == "usr1\n"
    assert await world.logged() == [0, 1, 4, 9]


async def test_held_released_vacated_suspended(world: World) -> None:
    await world.submit("echo run >> ran; exec sleep 600")
    await world.until_file("ran", 1)
    await world.schedd.act("SUSPEND", "true")
    await world.until_status(7)
    await world.schedd.act("CONTINUE", "true")
    await world.until_status(2)
    await world.schedd.act("HOLD", "true")
    await world.until_status(5)

    async def over() -> bool:
        return not world.schedd.point.local.runs

    await world.schedd.until(over)
    await world.schedd.act("RELEASE", "true")
    await world.until_file("ran", 2)
    await world.schedd.act("VACATE", "true")
    await world.until_file("ran", 3)
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()
    assert await world.logged() == [0, 1, 10, 11, 4, 12, 13, 1, 4, 1, 4, 9]


async def test_removed_by_force_the_family_is_ended_all_the_same(world: World) -> None:
    await world.submit('trap "" TERM; echo $$ > ran; while true; do sleep 0.05; done')
    await world.until_file("ran")
    pid = int(world.text("ran"))
    await world.schedd.act("REMOVE", "true")
    await world.schedd.act("REMOVE_FORCE", "true")
    await world.schedd.until_gone()

    async def dead() -> bool:
        return not Path(f"/proc/{pid}").exists()

    await world.schedd.until(dead)


async def test_a_keeper_that_is_killed_takes_its_family_along_and_the_job_runs_again(world: World) -> None:
    await world.submit("echo $$ >> ran; sleep 600")
    await world.until_file("ran")
    (run,) = world.schedd.point.local.runs.values()
    keeper = launcher.holder(run.place.control)
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    await world.until_file("ran", 2)
    first = world.text("ran").split()[0]

    async def reaped() -> bool:
        """Killed it is; who is its parent now takes a moment to collect it."""
        return not Path(f"/proc/{first}").exists()

    await world.schedd.until(reaped)
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()


async def test_policies_and_exit_rules(world: World) -> None:
    await world.submit("exit 2", OnExitHold=True, UserLog="")
    assert (await world.until_status(5))["HoldReasonCode"] == 3
    await world.schedd.act("REMOVE", "true")
    await world.submit("echo run >> ran; sleep 600", PeriodicHold=True)
    await world.until_file("ran")
    world.schedd.point.periodic.evaluate()
    await world.until_status(5)

    async def over() -> bool:
        return not world.schedd.point.local.runs

    await world.schedd.until(over)
    assert await world.logged() == [0, 1, 4, 12]


async def test_a_scheduler_job_that_fails_cools_down(world: World) -> None:
    """HTCondor starts one that exited with another status than 0 again after SCHEDULER_UNIVERSE_COOL_DOWN_DURATION."""
    await world.submit("echo run >> ran; exit 1", OnExitRemove=False)
    await world.until_file("ran")

    async def cools() -> bool:
        (ad,) = await world.schedd.jobs()
        return bool(ad["JobStatus"] == 1 and "JobCoolDownExpiration" in ad)

    await world.schedd.until(cools)
    (ad,) = await world.schedd.jobs()
    assert 290 < ad["JobCoolDownExpiration"] - ad["EnteredCurrentStatus"] <= 301
    assert world.text("ran") == "run\n"


@pytest.mark.parametrize(("universe", "more"), [(SCHEDULER, {"DisableCoolDown": True}), (LOCAL, {})])
async def test_a_job_that_ends_at_once_rests_between_its_starts(
    world: World, universe: int, more: dict[str, Any]
) -> None:
    """Without a cool-down, too; others start meanwhile."""
    await world.schedd.stop()
    world.schedd.clock = clock = ManualClock()
    await world.schedd.start()
    again = await world.submit("echo run >> ran; exit 1", universe, OnExitRemove=False, UserLog="", **more)
    await world.until_file("ran")
    ad = await world.until_status(1)
    assert (ad["ClusterId"], "JobCoolDownExpiration" in ad) == (again, False)
    await world.submit("echo run >> other", universe, UserLog="")
    await world.until_file("other")
    assert world.text("ran") == "run\n"
    clock.advance(1.0)
    await world.until_file("ran", 2)


async def test_how_many_run(world: World) -> None:
    await world.schedd.stop()
    await world.schedd.start(
        MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER="2",
        START_LOCAL_UNIVERSE="TotalLocalJobsRunning < 1 && TARGET.Wanted",
    )
    for _ in range(3):
        await world.submit("echo run >> ran; sleep 600", UserLog="")
    await world.submit("echo run >> locals; sleep 600", LOCAL, Wanted=True, UserLog="")
    await world.submit("echo run >> locals; sleep 600", LOCAL, Wanted=True, UserLog="")
    await world.submit("echo run >> unwanted", LOCAL, UserLog="")
    await world.submit("echo run >> unwanted", LOCAL, Wanted=True, Requirements=False, UserLog="")
    await world.until_file("ran", 2)
    await world.until_file("locals", 1)
    ad = world.schedd.point.own_ads.scheduler()
    counted = {name: ad[name] for name in ad if name.startswith(("TotalLocal", "TotalScheduler"))}
    assert counted == {
        "TotalLocalJobsRunning": 1,
        "TotalLocalJobsIdle": 3,
        "TotalSchedulerJobsRunning": 2,
        "TotalSchedulerJobsIdle": 1,
    }
    rows = world.schedd.point.requests.submitter_ads()
    (row,) = rows.values()
    assert (row["IdleJobs"], row["RunningJobs"], row["SchedulerJobsRunning"], row["LocalJobsIdle"]) == (0, 0, 2, 3)
    assert await world.schedd.negotiate("nowhere") == 0, "nobody is asked for slots"
    assert not (world.work / "unwanted").exists()
    await world.schedd.act("REMOVE", "JobStatus == 2 && JobUniverse == 7")
    await world.until_file("ran", 3)
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()


async def test_jobs_execute_in_the_order_of_their_starts(world: World) -> None:
    """By priority, as HTCondor 25.14.1 logged them."""
    priorities = [0, 4, 1, 3, 2, 5, 7, 6]
    await world.submit("exit 0", procs=[{"JobPrio": priority} for priority in priorities])

    async def over() -> bool:
        return (await world.logged()).count(5) == len(priorities)

    await world.schedd.until(over)
    executed = [line for line in world.text("job.log").splitlines() if line.startswith("001 (")]
    assert [priorities[int(line.split(".")[1])] for line in executed] == sorted(priorities, reverse=True)


async def test_those_that_depend_on_a_job_go_with_it(world: World) -> None:
    """OtherJobRemoveRequirements, of the same user's jobs only; also of those that depend on these."""
    cluster = await world.submit("sleep 600", OtherJobRemoveRequirements="DAGManJobId =?= 1", UserLog="")
    assert cluster == 1
    await world.submit("sleep 600", DAGManJobId=1, OtherJobRemoveRequirements="DAGManJobId =?= 2", UserLog="")
    await world.schedd.submit(1, DAGManJobId=2)
    await world.schedd.submit(1, DAGManJobId=3)
    own = world.schedd.user
    world.schedd.user = world.schedd.as_user("bob")
    await world.schedd.submit(1, DAGManJobId=1)
    world.schedd.user = own
    await world.schedd.act("REMOVE", "ClusterId == 1")

    async def left() -> bool:
        return {job["ClusterId"] for job in await world.schedd.jobs()} == {4, 5}

    await world.schedd.until(left)
    reasons = {ad["ClusterId"]: ad["RemoveReason"] for ad in await world.schedd.history()}
    assert reasons[2] == (
        "removed because <OtherJobRemoveRequirements = DAGManJobId =?= 1> fired when job (1.0) was removed"
    )


async def test_the_log_that_condor_dagman_reads(world: World) -> None:
    """Events of DAGManNodesMask go there, too, the node's name among them; also of jobs without a log of their own."""
    told: dict[str, Any] = {
        "DAGManNodesLog": "nodes.log",
        "DAGManNodesMask": "0,1,5,9",
        "DAGNodeName": "A",
        "JobBatchName": "a dag",
    }
    await world.submit("exit 0", SubmitEventNotes="DAG Node: A", **told)
    await world.submit("exit 0", LOCAL, UserLog="", **told)
    await world.submit("exit 1", OnExitHold=True, UserLog="nodes.log", **told)
    await world.until_status(5)
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()
    assert await world.logged() == [0, 1, 5]
    entries = [line[:9] for line in world.text("nodes.log").splitlines() if line[:1] == "0"]
    by_job = {number: [entry[:3] for entry in entries if entry[5:] == f"{number:03d}."] for number in (1, 2, 3)}
    assert by_job[1] == by_job[2] == ["000", "001", "005"]
    assert by_job[3] == ["000", "001", "012", "009"], "a log that is both holds all events once"
    assert '\n    [ DAGNodeName = "A"; JobBatchName = "a dag" ]\n' in world.text("nodes.log")


async def test_what_q_shows_of_a_dag(world: World) -> None:
    """Its nodes are one batch; what drives it is counted nowhere, as in HTCondor."""
    driver = await world.submit("sleep 600", UserLog="")
    await world.schedd.submit(2, DAGManJobId=driver, DAGNodeName="A")
    await world.schedd.submit(1, DAGManJobId=driver, DAGNodeName="B")
    query = schedd_pb2.JobQuery(batches=True)
    *rows, last = [chunk.data async for chunk in world.schedd.stub.Query(query, metadata=world.schedd.user)]
    (batch,) = json.loads(b"".join(rows))
    assert (batch["BatchName"], batch["Idle"], batch["Run"], batch["Total"]) == (f"DAG: {driver}", 3, 0, 3)
    assert batch["JobIds"] == "2.0 ... 3.0"
    assert json.loads(last)["Query"]["Jobs"] == json.loads(last)["All"]["Jobs"] == 3
    await world.schedd.act("REMOVE", "DAGNodeName =!= undefined")
    *rows, last = [chunk.data async for chunk in world.schedd.stub.Query(query, metadata=world.schedd.user)]
    (batch,) = json.loads(b"".join(rows))
    assert (batch["Total"], batch["JobIds"]) == (0, f"{driver}.0")


async def test_costly_expressions_hold_their_jobs_and_not_the_schedd(world: World) -> None:
    await world.submit("echo x > ran", UserLog="", Number=1, **bomb("Requirements"))
    assert "steps to evaluate" in (await world.until_status(5))["HoldReason"]
    await world.schedd.act("REMOVE", "true")
    await world.submit("echo x > ran", UserLog="", Number=1, **bomb("RemoveKillSig"))
    assert (await world.until_status(5))["HoldReasonCode"] == 6
    assert not (world.work / "ran").exists()


async def test_no_job_runs_where_others_may_write(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Root would write through what they put there, and remove it."""
    await world.schedd.stop()
    shared = world.root / "shared"
    theirs = shared / "dir_theirs"
    theirs.mkdir(parents=True)
    shared.chmod(0o777)
    await world.schedd.start(LOCAL_UNIV_EXECUTE=str(shared))

    async def told() -> bool:
        return f"{shared} is not a directory of the schedd's" in caplog.text

    await world.schedd.until(told)
    await world.submit("echo x > ran", UserLog="")
    await world.until_status(1)
    assert theirs.exists() and not (world.work / "ran").exists()


@pytest.mark.parametrize("universe", [SCHEDULER, LOCAL])
async def test_a_signal_that_does_not_exist_holds_its_job_alone(world: World, universe: int) -> None:
    await world.submit("echo x > ran", universe, KillSig=9_999_999_999, UserLog="")
    ad = await world.until_status(5)
    assert "there is no signal 9999999999" in ad["HoldReason"]
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()
    await world.submit("exit 3", universe)
    await world.schedd.until_gone()
    assert {ad.get("ExitCode") for ad in await world.schedd.history()} == {3, None}
    assert not (world.work / "ran").exists()


async def test_a_specification_that_nobody_can_read_keeps_no_others_from_their_runs(world: World) -> None:
    await world.submit("sleep 60", UserLog="")
    await world.until_status(2)
    directories = world.schedd.point.local.directories
    await world.schedd.until(lambda: directories.root is not None)  # the job is there once it counts as running
    root = directories.root
    assert root is not None
    await world.schedd.act("REMOVE", "true")
    await world.schedd.until_gone()
    await world.schedd.stop()
    stray = root / "dir_9.9_1"
    stray.mkdir(parents=True)
    (stray / "spec").write_bytes(b"kill_signal=9999999999\n")
    await world.schedd.start()
    await world.submit("exit 3")
    await world.schedd.until_gone()
    assert not stray.exists()


async def test_an_end_stands_though_its_job_is_not_understood_any_more(world: World) -> None:
    cluster = await world.submit("echo run >> ran; sleep 1; exit 7")
    await world.until_file("ran")
    edit = schedd_pb2.EditRequest(
        jobs=schedd_pb2.JobSelection(ids=[f"{cluster}.0"]), set={"KillSig": "9999999999", "JobMaxVacateTime": "1e999"}
    )
    await world.schedd.stub.Edit(edit, metadata=world.schedd.user)
    await world.schedd.kill()
    world.schedd = world.point()
    await world.schedd.start()
    await world.schedd.until_gone()
    (ad,) = await world.schedd.history()
    assert ad["ExitCode"] == 7 and world.text("ran") == "run\n"


async def test_condor_dagman_gets_its_commands_and_its_batch_and_is_told_what_its_nodes_came_to(world: World) -> None:
    program = world.work / "condor_dagman"
    program.write_text('#!/bin/sh\nenv > env\necho "$*" > args\necho > ready\nuntil [ -e end ]; do sleep 0.1; done\n')
    program.chmod(0o755)
    arguments = "-f -l . -Dag x.dag -AutoRescue 1"
    more: dict[str, Any] = {"Environment": "_CONDOR_DAGMAN_CONDOR_RM_EXE=/bin/own", "DAG_NodesTotal": 4}
    driver = await world.submit("", Cmd=str(program), Arguments=arguments, **more)
    await world.until_file("ready")
    assert world.text("args") == f"{arguments} -Batch-Name x.dag+{driver}\n"
    env = dict(line.split("=", 1) for line in world.text("env").splitlines())
    assert env["_CONDOR_DAGMAN_USE_DIRECT_SUBMIT"] == "False" and env["_CONDOR_LOG"] == "."
    assert env["_CONDOR_DAGMAN_CONDOR_RM_EXE"] == "/bin/own", "what the user wrote counts"

    of_dag: dict[str, Any] = {"DAGManJobId": driver, "JobBatchName": f"x.dag+{driver}", "DAGNodeName": "A"}
    for script in ("exit 0", "exit 0", "exit 1"):
        await world.submit(script, LOCAL, **of_dag)

    async def counted() -> bool:
        (ad,) = await world.schedd.jobs(f"ClusterId == {driver}")
        return bool(ad.get("DAG_JobsCompleted") == 3)

    await world.schedd.until(counted)
    (ad,) = await world.schedd.jobs(f"ClusterId == {driver}")
    assert (ad["JobBatchName"], ad["DAG_NodesDone"]) == (f"x.dag+{driver}", 2)
    await world.submit("exit 0", LOCAL, JobStatus=5, **of_dag)
    query = schedd_pb2.JobQuery(batches=True)
    answers = [json.loads(part.data) async for part in world.schedd.stub.Query(query, metadata=world.schedd.user)]
    rows = [row for row in answers[0] if row["BatchName"] == f"x.dag+{driver}"]
    assert len(answers[0]) == len(rows) == 1, answers
    (row,) = rows
    assert (row["BatchName"], row["Done"], row["Total"], row["Hold"]) == (f"x.dag+{driver}", 2, 4, 1)
    # The nodes of a DAG within it count as well.
    within: dict[str, Any] = {"JobStatus": 5, "DAG_NodesTotal": 20, "DAG_NodesDone": 3}
    await world.submit("exit 0", Cmd=str(program), Arguments=arguments, **of_dag, **within)
    answers = [json.loads(part.data) async for part in world.schedd.stub.Query(query, metadata=world.schedd.user)]
    ((row,),) = answers[:1]
    assert (row["Done"], row["Total"]) == (5, 24)
    await world.schedd.act("REMOVE", "JobStatus == 5")
    (world.work / "end").touch()
    await world.schedd.until_gone()

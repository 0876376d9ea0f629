"""The execution point in a real pool: draining, vacating, rank preemption, a killed startd under claims in use."""

from __future__ import annotations

import json
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

BASE = "NUM_CPUS = 4\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\n"


#: Lines of a job that runs until the file ``go`` is in its scratch directory.
UNTIL_GO = ("executable = /bin/sh", """arguments = "-c 'until test -e go; do sleep 0.1; done'" """)


def submit(pool: Pool, seconds: float, count: int = 1, *extra: str) -> Path:
    """Queue jobs that sleep; the path of their event log."""
    pool.root.parent.chmod(0o755)  # jobs run as another user
    log = pool.root / "jobs.log"
    lines = [
        "executable = /bin/sleep", f"arguments = {seconds}", f"log = {log}", "transfer_executable = false", *extra,
        f"queue {count}",
    ]  # fmt: skip
    description = pool.root / "job.sub"
    description.write_text("\n".join(lines) + "\n")
    pool.run("submit", str(description))
    return log


def let_go(pool: Pool) -> None:
    """Let the jobs that run now come to their end."""
    for scratch in pool.home.execute.glob("dir_*/scratch"):
        (scratch / "go").touch()


def events(log: Path, kind: str) -> int:
    """How many events of a kind (``001``: executing) the log has."""
    return sum(line.startswith(f"{kind} (") for line in log.read_text().splitlines()) if log.exists() else 0


def slots(pool: Pool, **wanted: object) -> list[dict[str, Any]]:
    """The slot ads that say so."""
    return [ad for ad in pool.json("status") if all(ad.get(name) == value for name, value in wanted.items())]


def test_a_drained_machine_keeps_its_jobs_for_their_retirement_and_takes_no_new_ones(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool(BASE + "MaxJobRetirementTime = 3600\n")
    pool.up()
    log = submit(pool, 600, 2)
    pool.until("two jobs run", lambda: events(log, "001") >= 2)
    host = str(slots(pool)[0]["Machine"])
    assert "Sent request to drain the startd" in pool.run("drain", "-reason", "kernel", host).stdout
    pool.until("jobs retire", lambda: len(slots(pool, State="Claimed", Activity="Retiring")) == 2)
    pool.until("the rest is drained", lambda: slots(pool, State="Drained", DrainReason="kernel"))
    assert pool.run("drain", host, check=False).returncode != 0
    pool.run("drain", "-cancel", host)
    pool.until("jobs go on", lambda: len(slots(pool, State="Claimed", Activity="Busy")) == 2)
    for wrong in ("node9", "slot9@" + host):
        refused = pool.run("vacate", wrong, check=False)
        assert refused.returncode == 1 and "no machine or slot" in refused.stderr
    assert "there is no slot 'slot9' here" in pool.run("vacate", "slot9", check=False).stderr
    pool.run("vacate", "-fast")
    pool.until("both were evicted and run again", lambda: events(log, "004") >= 2 and events(log, "001") >= 4)
    pool.run("rm", "-all")


@pytest.fixture
def disks() -> Iterator[list[Path]]:
    """Two directories that every account reaches: those of pytest are closed."""
    with tempfile.TemporaryDirectory(prefix="sw-disks-") as top:
        Path(top).chmod(0o755)
        found = [Path(top) / "disk1", Path(top) / "disk2"]
        for disk in found:
            disk.mkdir(mode=0o755)
        yield found


def test_slots_may_have_their_scratch_directories_on_different_disks(
    make_pool: Callable[[str], Pool], disks: list[Path]
) -> None:
    pool = make_pool(
        "NUM_CPUS = 2\nNUM_SLOTS = 2\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\nMOUNT_UNDER_SCRATCH =\n"
        f"SLOT1_EXECUTE = {disks[0]}\nSLOT2_EXECUTE = {disks[1]}\n"
    )
    pool.up()
    where = ["executable = /bin/sh", """arguments = "-c 'echo $_CONDOR_SCRATCH_DIR'" """]
    for number in (1, 2):
        log = submit(pool, 0, 1, *where, f"output = where{number}", f"requirements = TARGET.SlotID == {number}")
        pool.until(f"the job on slot {number} has ended", lambda log=log, n=number: events(log, "005") == n)
    places = [Path((pool.root / f"where{number}").read_text().strip()) for number in (1, 2)]
    assert [place.is_relative_to(disk) for place, disk in zip(places, disks, strict=True)] == [True, True], places
    pool.until("nothing is left there", lambda: not [found for disk in disks for found in disk.glob("dir_*")])


def test_a_job_that_the_machine_likes_better_takes_the_slot(make_pool: Callable[[str], Pool]) -> None:
    one_slot = "NUM_CPUS = 1\nNUM_SLOTS = 1\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\n"
    pool = make_pool(one_slot + "RANK = (TARGET.Fancy =?= true) * 10\n")
    pool.up()
    log = submit(pool, 600)
    pool.until("the plain job runs", lambda: events(log, "001") >= 1)
    submit(pool, 0.2, 1, "+Fancy = true")
    pool.until("the fancy job has run", lambda: events(log, "005") == 1)
    text = log.read_text()
    assert "Job was evicted. Code 1018" in text
    pool.until("the plain one runs again", lambda: events(log, "001") >= 3)
    pool.run("rm", "-all")


def test_a_preempt_that_is_true_while_suspended_only_holds_the_job(make_pool: Callable[[str], Pool]) -> None:
    policy = (
        "POLLING_INTERVAL = 1\nWANT_SUSPEND = TARGET.Probe =?= true\nSUSPEND = true\nCONTINUE = false\n"
        'PREEMPT = (Activity == "Suspended") && (time() - EnteredCurrentActivity) > 2\n'
        'WANT_HOLD = true\nWANT_HOLD_REASON = "the owner wants it"\nWANT_HOLD_SUBCODE = 77\n'
    )
    pool = make_pool(BASE + policy)
    pool.up()
    log = submit(pool, 600, 1, "+Probe = true")
    pool.until("the job is held", lambda: events(log, "012") >= 1)
    (job,) = pool.json("q")
    assert (job["JobStatus"], job["HoldReasonCode"], job["HoldReasonSubCode"], job["NumJobStarts"]) == (5, 21, 77, 1)
    assert "the owner wants it" in job["HoldReason"]
    pool.run("rm", "-all")


def test_jobs_live_through_the_death_of_the_startd(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    log = submit(pool, 0, 4, *UNTIL_GO)
    pool.until("all run", lambda: events(log, "001") >= 4)
    pool.kill("startd")
    let_go(pool)
    pool.until("all have ended", lambda: events(log, "005") == 4)
    assert (events(log, "001"), events(log, "004")) == (4, 0)
    pool.until("the machine is whole again", lambda: [ad["Cpus"] for ad in slots(pool)] == [4])


def test_a_startd_is_turned_off_in_each_way_and_on_again(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE + "MaxJobRetirementTime = 3600\n")
    pool.up()
    log = submit(pool, 0, 1, *UNTIL_GO)
    pool.until("it runs", lambda: events(log, "001") >= 1)
    pool.run("off", "-peaceful", "-startd")
    start_log = pool.home.log / "StartLog"
    pool.until("it retires", lambda: "Claimed/Busy -> Claimed/Retiring" in start_log.read_text())
    let_go(pool)
    pool.until("the startd ends when the job has", lambda: pool.pid("startd") is None)
    assert (events(log, "005"), events(log, "004")) == (1, 0)
    pool.until("its ads have gone", lambda: not slots(pool))

    assert json.loads(pool.run("on", "-startd", "-json").stdout)[0]["Daemons"] == ["startd"]
    pool.until("it is back", lambda: slots(pool, State="Unclaimed"))
    log = submit(pool, 600)
    pool.until("the next one runs", lambda: events(log, "001") >= 2)
    pool.run("off", "-graceful", "-startd")
    pool.until("retirement is honoured", lambda: slots(pool, State="Claimed", Activity="Retiring"))
    pool.run("off", "-fast", "-startd", "-wait")  # a harder way takes the place of the softer
    assert pool.pid("startd") is None and pool.pid("master") is not None
    pool.until("the job was evicted", lambda: events(log, "004") >= 1)

    pool.run("on")
    pool.until("it runs again", lambda: events(log, "001") >= 3)
    pool.run("off", "-peaceful", "-startd")
    pool.until("it retires again", lambda: slots(pool, State="Claimed", Activity="Retiring"))
    pool.run("on", "-startd")  # changed their mind: the startd that ends is started again
    pool.run("rm", "-all")
    pool.until("a fresh startd", lambda: slots(pool, State="Unclaimed", NumDynamicSlots=0))
    assert "exclude each other" in pool.run("off", "-fast", "-peaceful", check=False).stderr
    assert "keeps no" in pool.run("off", "-daemon", "kitchen", check=False).stderr


def test_a_drained_startd_exits_for_good_or_comes_back(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    host = str(pool.until("there is a slot", lambda: slots(pool))[0]["Machine"])
    former = pool.pid("startd")
    pool.run("drain", "-restart-on-completion", host)
    pool.until("another startd", lambda: pool.pid("startd") not in (None, former))
    pool.until("that is not drained", lambda: slots(pool, State="Unclaimed"))
    pool.run("update-machine-ad", "-name", host, str(ad_file(pool.root, 'Floor = 3\nMood = strcat(State, "!")\n')))
    pool.until("the ads have it", lambda: slots(pool, Floor=3))
    assert pool.run("status", "-constraint", 'Mood == "Unclaimed!"', "-af", "Floor").stdout == "3\n"
    assert pool.run("update-machine-ad", str(ad_file(pool.root, "")), check=False).returncode != 0
    pool.config_file.write_text(BASE + 'STARTD_ATTRS = Colour\nColour = "red"\n')
    pool.run("drain", "-reconfig-on-completion", host)
    pool.until("it has read the configuration", lambda: slots(pool, State="Unclaimed", Colour="red"))
    pool.run("drain", "-exit-on-completion", host)
    pool.until("it has gone", lambda: pool.pid("startd") is None and not slots(pool))
    assert pool.pid("master") is not None
    pool.run("on", "-startd")
    pool.until("until it is wanted again", lambda: slots(pool, State="Unclaimed"))


def ad_file(directory: Path, text: str) -> Path:
    """A file with this text."""
    path = directory / "update.ad"
    path.write_text(text)
    return path


def test_a_machine_that_nobody_wants_shuts_down(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE + "POLLING_INTERVAL = 1\n")
    pool.up()
    log = submit(pool, 3)
    pool.until("the job runs", lambda: events(log, "001") >= 1)
    pool.config_file.write_text(pool.config_file.read_text() + "STARTD_NOCLAIM_SHUTDOWN = 2\n")
    pool.run("reconfig")
    pool.until("the job has ended", lambda: events(log, "005") == 1)
    pool.until("all have ended", lambda: not pool.pids())


def test_what_a_monitor_measures_of_a_device_is_in_the_ads_of_slot_and_job(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    monitor = pool.root / "monitor"
    monitor.write_text(
        "#!/bin/sh\nfor device in d1 d2; do\n"
        'echo "SlotMergeConstraint = stringListMember(\\"$device\\", AssignedDev)"\n'
        'echo "UptimeDevSeconds = 0.5"\necho "UptimeDevMemoryPeakUsage = 7"\necho "- $device"\ndone\n'
    )
    monitor.chmod(0o755)
    knobs = (
        f"MACHINE_RESOURCE_Dev = d1, d2\nSTARTD_CRON_JOBLIST = mon\nSTARTD_CRON_mon_EXECUTABLE = {monitor}\n"
        "STARTD_CRON_mon_PERIOD = 1s\nSTARTD_CRON_mon_METRICS = SUM:Dev, PEAK:DevMemory\nUPDATE_INTERVAL = 1\n"
    )
    pool.config_file.write_text(pool.config_file.read_text() + knobs)
    pool.up()
    log = submit(pool, 0, 1, "request_Dev = 1", *UNTIL_GO)
    pool.until(
        "the slot tells of its job's device",
        lambda: any(0.1 < float(str(ad.get("DevAverageUsage", 0))) < 1 for ad in slots(pool, State="Claimed")),
    )
    let_go(pool)
    pool.until("the job has ended", lambda: events(log, "005") == 1)
    (job,) = pool.json("history")
    assert 0.1 < job["DevAverageUsage"] < 1 and job["DevMemoryUsage"] == 7
    (line,) = [line for line in log.read_text().splitlines() if line.split()[:2] == ["Dev", ":"]]
    assert line.split()[2:5] == [f"{job['DevAverageUsage']:.2f}", "1", "1"]
    (slot,) = slots(pool, Name=slots(pool)[0]["Name"])
    assert slot["DeviceDevMemoryPeakUsage"] == 7 and float(str(slot["DeviceDevAverageUsage"])) > 0
    assert "UptimeDevSeconds" not in slot


def test_daemons_take_descriptors_that_jobs_do_not_get(make_pool: Callable[[str], Pool]) -> None:
    """Each daemon, whoever started it, has room for a crowd of connections; a job has the limit that the pool had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    pool = make_pool(BASE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (900, hard))
    try:
        assert pool.begin("up").wait(LIMIT_S) == 0  # a process of this one
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)

    def limits() -> dict[str, int]:
        return {name: resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] for name, pid in pool.pids().items()}

    everyone = {"master", "collector", "negotiator", "schedd", "startd", "starter", "front"}
    assert {name: limits().get(name) for name in everyone} == dict.fromkeys(everyone, wanted)
    before = {name: pool.kill(name) for name in ("starter", "startd", "schedd", "master")}
    for name, pid in before.items():
        pool.until(f"{name} is there again", lambda: pool.pid(name) not in (None, pid) and pool.answers(name))  # noqa: B023
    pool.until("all have room again", lambda: {limits().get(name) for name in everyone} == {wanted})
    script, out = pool.root / "limit.sh", pool.root / "limit.out"
    script.write_text("#!/bin/sh\nulimit -Sn\nulimit -Hn\n")
    script.chmod(0o755)
    pool.root.parent.chmod(0o755)
    out.touch()
    out.chmod(0o666)
    (pool.root / "limit.sub").write_text(f"executable = {script}\noutput = {out}\nlog = {pool.root}/limit.log\nqueue\n")
    pool.run("submit", str(pool.root / "limit.sub"))
    pool.until("the job has ended", lambda: events(pool.root / "limit.log", "005") == 1)
    assert out.read_text().split() == ["900", "unlimited" if hard == resource.RLIM_INFINITY else str(hard)]

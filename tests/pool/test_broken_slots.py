"""kill -9 of real daemons: what a broken slot took stays lost; a machine that was being drained goes on draining."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pool.test_execution_point import BASE, UNTIL_GO, events, slots, submit
from tests.support import host
from tests.support.pool import Pool
from tests.support.unkillable import deaf_file_system


@pytest.fixture
def fix_in_place() -> Iterator[Callable[[Path], None]]:
    """Makes a file that nobody can remove, until the test is over."""
    made: list[Path] = []

    def fix(path: Path) -> None:
        path.touch()
        subprocess.run(["chattr", "+i", str(path)], check=True)
        made.append(path)

    yield fix
    for path in made:
        if path.exists():
            subprocess.run(["chattr", "-i", str(path)], check=True)


@host.needs(host.immutable_files)
@pytest.mark.parametrize("victims", [["startd"], ["startd", "starter"]], ids=" and ".join)
def test_a_scratch_directory_that_cannot_be_removed_breaks_the_slot(
    make_pool: Callable[[str], Pool], fix_in_place: Callable[[Path], None], victims: list[str]
) -> None:
    pool = make_pool(BASE)
    pool.up()
    log = submit(pool, 0, 1, *UNTIL_GO)
    pool.until("it runs", lambda: events(log, "001") >= 1)
    scratch = re.search(r'CondorScratchDir = "(.+)"', log.read_text())
    assert scratch is not None
    fix_in_place(Path(scratch[1]) / "kept")
    for victim in victims:
        pool.kill(victim)
    (Path(scratch[1]) / "go").touch()
    pool.until("the job has ended", lambda: events(log, "005") == 1)
    broken = pool.until("the slot has lost a core", lambda: slots(pool, BrokenSlotCpus=1))
    assert (broken[0]["Cpus"], broken[0]["TotalSlotCpus"], broken[0]["Name"].partition("@")[0]) == (3, 3, "slot1")
    own = pool.until("the daemon's ad tells", lambda: [ad for ad in own_ads(pool) if ad.get("BrokenReasons")])[0]
    assert own["BrokenContextAds"][0]["Code"] == 4
    assert "Could not clean up after job" in own["BrokenReasons"][0]
    pool.kill("startd")
    pool.until("another startd answers", lambda: pool.pid("startd") and pool.answers("startd"))
    assert pool.until("it remembers", lambda: slots(pool, BrokenSlotCpus=1))[0]["Cpus"] == 3
    log = submit(pool, 0.1, 6)
    pool.until("what is left still works", lambda: events(log, "005") == 7)


@host.needs(host.immutable_files)
@pytest.mark.parametrize("victim", ["nobody", "starter", "startd"])
def test_what_can_be_removed_later_repairs_the_slot(
    make_pool: Callable[[str], Pool], fix_in_place: Callable[[Path], None], victim: str
) -> None:
    pool = make_pool(BASE + "STARTD_CLEANUP_REMINDER_TIMER_INTERVAL = 1\nAGGRESSIVE_CLEANUP_REMINDER = true\n")
    pool.up()
    log = submit(pool, 0, 1, *UNTIL_GO)
    pool.until("it runs", lambda: events(log, "001") >= 1)
    scratch = re.search(r'CondorScratchDir = "(.+)"', log.read_text())
    assert scratch is not None
    kept = Path(scratch[1]) / "kept"
    fix_in_place(kept)
    (Path(scratch[1]) / "go").touch()
    pool.until("the slot has lost a core", lambda: slots(pool, BrokenSlotCpus=1))
    if victim != "nobody":
        pool.kill(victim)
    subprocess.run(["chattr", "-i", str(kept)], check=True)
    whole = pool.until("it has it back", lambda: [ad for ad in slots(pool) if ad.get("Cpus") == 4])
    assert "BrokenSlotCpus" not in whole[0]
    pool.until("the daemon's ad is glad", lambda: [ad for ad in own_ads(pool) if not ad.get("BrokenReasons")])
    assert not kept.exists()


@host.needs(host.root, host.fuse)
def test_processes_that_cannot_be_killed_break_the_slot_until_the_startd_starts_again(
    make_pool: Callable[[str], Pool],
) -> None:
    # Jobs see the place below /tmp only where they have no /tmp of their own.
    pool = make_pool(BASE + "STARTD_LEFTOVER_PROCS_BREAK_SLOTS = true\nMOUNT_UNDER_SCRATCH =\n")
    with deaf_file_system() as place:  # before the daemons have mounts of their own
        pool.up()
        script = f"stat {place}/name & sleep 1"
        log = submit(pool, 0, 1, "executable = /bin/sh", f"arguments = \"-c '{script}'\"")
        pool.until("it has ended", lambda: events(log, "005") == 1)
        broken = pool.until("the slot has lost a core", lambda: slots(pool, BrokenSlotCpus=1))
        assert broken[0]["Cpus"] == 3
        own = pool.until("the daemon's ad tells", lambda: [ad for ad in own_ads(pool) if ad.get("BrokenReasons")])[0]
        assert own["BrokenReasons"] == ["Could not terminate all job processes"]
        assert own["BrokenContextAds"][0]["Code"] == 6
        log = submit(pool, 0.1, 6)
        pool.until("what is left still works", lambda: events(log, "005") == 7)
    pool.run("restart", "startd")
    pool.until("it is whole", lambda: [ad for ad in slots(pool) if ad.get("Cpus") == 4])


def own_ads(pool: Pool) -> list[dict[str, object]]:
    """The startd's own ads."""
    return list(pool.json("status", "-subsystem", "StartDaemon"))


def test_a_killed_startd_goes_on_draining(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE + "MaxJobRetirementTime = 3600\n")
    pool.up()
    log = submit(pool, 600, 2)
    pool.until("two jobs run", lambda: events(log, "001") >= 2)
    host = str(slots(pool)[0]["Machine"])
    pool.run("drain", "-reason", "kernel", host)
    pool.until("jobs retire", lambda: len(slots(pool, State="Claimed", Activity="Retiring")) == 2)
    for _ in range(2):
        pool.kill("startd")
        pool.until("another startd answers", lambda: pool.pid("startd") and pool.answers("startd"))
        pool.until("the rest is drained", lambda: slots(pool, State="Drained", DrainReason="kernel"))
        assert len(slots(pool, State="Claimed", Activity="Retiring")) == 2
    assert events(log, "004") == 0
    assert "drains already" in pool.run("drain", host, check=False).stderr
    pool.run("drain", "-cancel", "-request-id", "1", host)
    pool.until("jobs go on", lambda: len(slots(pool, State="Claimed", Activity="Busy")) == 2)
    pool.kill("startd")
    pool.until("nothing drains any more", lambda: slots(pool, State="Unclaimed") and not slots(pool, Draining=True))
    pool.run("rm", "-all")

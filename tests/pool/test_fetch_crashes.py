"""The hooks of the guide on a real pool with a queue behind HTTP; then the same while everything is killed."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pool.test_execution_point import slots
from tests.support import host
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S
from tests.support.work_queue import WorkQueue

GUIDE = Path(__file__).parents[2] / "docs/guides/fetch-work.md"
HOOKS = ("fetch_work", "reply_fetch", "prepare_job", "evict_claim", "job_exit")
LONG = int(os.environ.get("SLOTWISE_LONG_CRASHES", "0"))


@pytest.fixture
def queue() -> Iterator[WorkQueue]:
    with WorkQueue() as queue:
        yield queue


@pytest.fixture
def place(open_directory: Path) -> Path:
    """A directory that jobs of nobody's may work in."""
    jobs = open_directory / "jobs"
    jobs.mkdir()
    jobs.chmod(0o777)
    return open_directory


def of_the_guide(place: Path, queue: WorkQueue, **knobs: str) -> str:
    """The guide's program under its five names, and the guide's configuration, for this queue."""
    program, settings = re.findall(r"^```(?:python)?\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert program.startswith("#!/usr/bin/python3\n") and "http://127.0.0.1:8199" in program
    hooks = place / "hooks"
    hooks.mkdir()
    (hooks / "queue").write_text(program.replace("http://127.0.0.1:8199", queue.address))
    (hooks / "queue").chmod(0o755)
    for name in HOOKS:
        (hooks / name).symlink_to("queue")
    more = {"RunBenchmarks": "false", "POLLING_INTERVAL": "1", "DAEMON_LIST": "MASTER, COLLECTOR, STARTD", **knobs}
    return settings.replace("/usr/local/libexec/queue", str(hooks)) + "".join(f"{k} = {v}\n" for k, v in more.items())


def job(place: Path, name: str, sleep_s: float) -> str:
    """An ad whose job notes when it begins and ends, and fails when another of it runs."""
    script = f"mkdir run.{name} || echo {name} twice >> log; echo {name} begin >> log; sleep {sleep_s}; " \
             f"echo {name} end >> log; rmdir run.{name}"  # fmt: skip
    asks = f'StarterUserLog = "{name}.ulog"\nRequestCpus = 1\nRequestMemory = 16\nRequestDisk = 10\n'
    return f'Cmd = "/bin/sh"\nArguments = "-c \'{script}\'"\nIwd = "{place}/jobs"\nOwner = "nobody"\n{asks}'


def log(place: Path) -> Counter[str]:
    path = place / "jobs/log"
    return Counter(path.read_text().splitlines() if path.exists() else [])


def log_of(place: Path, name: str) -> Counter[str]:
    """How often each event is in an item's own log (StarterUserLog); no entry may be there twice."""
    text = (place / f"jobs/{name}.ulog").read_text()
    entries = [entry for entry in text.split("...\n") if entry]
    assert len(set(entries)) == len(entries), text
    return Counter(entry[:3] for entry in entries)


needs_python = host.needs(host.programs("/usr/bin/python3"))


@needs_python
def test_the_guide_works(make_pool: Callable[[str], Pool], queue: WorkQueue, place: Path) -> None:
    for number in range(6):
        queue.put(f"i{number}", job(place, f"i{number}", 0.1))
    pool = make_pool(of_the_guide(place, queue, NUM_CPUS="2", NUM_SLOTS="2"))
    pool.up()
    pool.until("all is done", lambda: queue.count("done") == 6)
    assert {item.name: (item.taken, item.codes) for item in queue.items.values()} == {
        f"i{number}": (1, ["0"]) for number in range(6)
    }
    assert log(place) == Counter(f"i{n} {word}" for n in range(6) for word in ("begin", "end"))
    pool.until("the slots are free again", lambda: {ad["State"] for ad in slots(pool)} == {"Unclaimed"})
    pool.down()


@needs_python
def test_work_that_cannot_run_is_not_done(make_pool: Callable[[str], Pool], queue: WorkQueue, place: Path) -> None:
    """Its program is not there: the queue gets it back."""
    queue.put("bad", job(place, "bad", 0.1).replace('Cmd = "/bin/sh"', 'Cmd = "/no/such/program"'))
    pool = make_pool(of_the_guide(place, queue, NUM_CPUS="1", NUM_SLOTS="1"))
    pool.up()
    pool.until("it was taken, and is back", lambda: queue.items["bad"].taken and queue.count("waiting") == 1)
    assert queue.count("done") == 0
    pool.down()


@needs_python
@pytest.mark.parametrize("seed", range(LONG or 1))
def test_no_item_is_lost_or_done_twice(
    make_pool: Callable[[str], Pool], queue: WorkQueue, place: Path, seed: int
) -> None:
    """kill -9 of startd, starter and hooks at random moments."""
    chance = random.Random(seed)
    names = [f"i{number}" for number in range(6)]
    for name in names:
        queue.put(name, job(place, name, chance.choice((0.2, 1.5))))
    shapes = (
        {"NUM_CPUS": "2", "NUM_SLOTS": "2"},
        {"NUM_CPUS": "2", "SLOT_TYPE_1": "100%", "SLOT_TYPE_1_PARTITIONABLE": "true", "NUM_SLOTS_TYPE_1": "1"},
    )
    delay = 'ifThenElse(State == "Claimed" && Activity == "Busy", 3600, 1)'
    pool = make_pool(of_the_guide(place, queue, **shapes[seed % 2], FetchWorkDelay=delay))
    pool.up()
    for _ in range(6):
        time.sleep(chance.uniform(0.1, 1.0))  # the moment is what is random
        what = chance.choice(("startd", "startd", "starter", "hooks", "both"))
        if what == "hooks":
            kill_hooks(place)
        for daemon in ("startd", "starter"):
            if what in (daemon, "both") and pool.pid(daemon) is not None:
                pool.kill(daemon)
    pool.until(f"all is done (seed {seed})", lambda: queue.count("done") == len(names), limit_s=2 * LIMIT_S)
    found = log(place)
    assert not [line for line in found if line.endswith("twice")], found
    ended = {name: found[f"{name} end"] for name in names}
    assert ended == dict.fromkeys(names, 1), _story(pool, place, queue, [n for n in names if ended[n] != 1])
    assert {item.name: item.done for item in queue.items.values()} == dict.fromkeys(names, 1)
    pool.until("every end is in its log", lambda: all(log_of(place, name)["005"] for name in names))
    for name in names:
        assert log_of(place, name)["005"] == 1
    pool.until("no call of a hook is left", lambda: not list((pool.home.spool / "fetch").iterdir()))
    pool.down()


def kill_hooks(place: Path) -> None:
    """kill -9 of every process that runs a hook, as it is found."""
    mine = os.fsencode(place / "hooks")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(mine) for word in words):
            try:
                os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def _story(pool: Pool, place: Path, queue: WorkQueue, names: list[str]) -> str:
    """What became of items: their codes, what they wrote, their logs, and what the starter said."""
    told = [f"{name}: taken {queue.items[name].taken} times, codes {queue.items[name].codes}" for name in names]
    logs = [path for name in names if (path := place / f"jobs/{name}.ulog").exists()]
    told += [f"{path}:\n{path.read_text()}" for path in (place / "jobs/log", *logs)]
    return "\n".join([*told, (pool.home.log / "StarterLog").read_text(errors="replace")[-20_000:]])

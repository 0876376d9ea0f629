"""Faults of an execution point are not held against the jobs that meet them."""

from __future__ import annotations

import re
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.pool import Pool

QUICK = "NUM_CPUS = 4\nNEGOTIATOR_INTERVAL = 1\nSLOTWISE_REFUSED_MATCH_DELAY = 1\n"


def submit(pool: Pool, count: int) -> None:
    (pool.root / "it.sub").write_text(
        f"executable = /bin/sleep\narguments = 0\nrequest_memory = 10\nlog = it.log\nqueue {count}\n"
    )
    pool.run("submit", str(pool.root / "it.sub"))


def jobs(pool: Pool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pool.json("q")
    return found


def test_a_starter_out_of_descriptors_sends_jobs_back_to_the_queue(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(QUICK)
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    starter = pool.pid("starter")
    assert starter is not None
    former = resource.prlimit(starter, resource.RLIMIT_NOFILE)
    open_now = len(list(Path(f"/proc/{starter}/fd").iterdir()))
    resource.prlimit(starter, resource.RLIMIT_NOFILE, (open_now + 1, former[1]))
    submit(pool, 4)

    def tried() -> bool:
        return all(ad.get("NumFailedStarts") for ad in jobs(pool))

    pool.until("each has failed to start, or has run", tried)
    assert all(ad["JobStatus"] != 5 for ad in jobs(pool))
    assert all("Too many open files" in ad["LastFailedStartReason"] for ad in jobs(pool))
    resource.prlimit(starter, resource.RLIMIT_NOFILE, former)
    told = (pool.home.log / "StarterLog").read_text()
    failed = sum(ad["NumFailedStarts"] for ad in jobs(pool)) + 4  # of which some are under way
    assert 0 < told.count("Too many open files") <= 3 * failed


def test_jobs_wait_while_execute_is_no_directory(make_pool: Callable[[str], Pool], open_directory: Path) -> None:
    execute = open_directory / "execute"
    pool = make_pool(f"{QUICK}EXECUTE = {execute}\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    execute.rename(open_directory / "aside")
    execute.write_text("")
    submit(pool, 1)

    def waits() -> bool:  # its start failed, or the machine has seen that it has no disk
        return any(ad.get("NumFailedStarts") or ad.get("LastRejMatchReason") for ad in jobs(pool))

    pool.until("it could not start", waits)
    (ad,) = jobs(pool)
    assert ad["JobStatus"] != 5 and not ad.get("NumHolds")
    assert str(execute) in ad.get("LastFailedStartReason", str(execute))
    told = "".join((pool.home.log / name).read_text() for name in ("StarterLog", "StartLog"))
    assert 0 < told.count("Not a directory") <= 3 * (jobs(pool)[0].get("NumFailedStarts", 0) + 1)
    execute.unlink()
    (open_directory / "aside").rename(execute)
    pool.until("it has run", lambda: not jobs(pool))


def test_a_schedd_out_of_descriptors_holds_no_job(make_pool: Callable[[str], Pool], open_directory: Path) -> None:
    pool = make_pool(f"{QUICK}MOUNT_UNDER_SCRATCH =\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    go = open_directory / "go"
    (pool.root / "it.sub").write_text(
        f"executable = /bin/sh\narguments = \"-c 'until [ -e {go} ]; do sleep 0.1; done; echo in > out.txt'\"\n"
        "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\nrequest_memory = 10\nlog = it.log\n"
        'transfer_output_remaps = "out.txt=out.$(Process).txt"\nqueue 4\n'
    )
    pool.run("submit", str(pool.root / "it.sub"))
    pool.until("all run", lambda: (pool.root / "it.log").read_text().count("Job executing") == 4)
    schedd = pool.pid("schedd")
    assert schedd is not None
    former = resource.prlimit(schedd, resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path(f"/proc/{schedd}/fd").iterdir())
    resource.prlimit(schedd, resource.RLIMIT_NOFILE, (highest + 1, former[1]))
    go.touch()
    log = pool.home.log / "SchedLog"
    pool.until("the schedd has met it", lambda: "files of jobs wait: Too many open files" in log.read_text())
    resource.prlimit(schedd, resource.RLIMIT_NOFILE, former)
    pool.until("all have run", lambda: not jobs(pool))
    assert [(pool.root / f"out.{number}.txt").read_text() for number in range(4)] == ["in\n"] * 4
    told = (pool.root / "it.log").read_text()
    assert (told.count("\n005 (") + told.startswith("005 ("), told.count("012 (")) == (4, 0)
    assert log.read_text().count("files of jobs wait") == 1


@contextmanager
def no_descriptor_left(pid: int) -> Iterator[None]:
    """The process can open nothing more."""
    former = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, former[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, former)


def test_a_web_service_out_of_descriptors_says_so_once(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, WEB\nSLOTWISE_HTTP_PORT = 0\n")
    pool.up()
    log = pool.home.log / "WebLog"
    serving = re.compile(r"serving http://127\.0\.0\.1:(\d+)/")
    web, (port,) = pool.pid("web"), pool.until("it serves", lambda: serving.findall(log.read_text()))
    assert web is not None
    before = len(log.read_text().splitlines())
    with ExitStack() as connections:
        with no_descriptor_left(web):
            # One of which there may be room for: what the service had open when it was looked at may be closed.
            for _ in range(8):
                connections.enter_context(socket.create_connection(("127.0.0.1", int(port))))
            pool.until("it has met it", lambda: "connections wait to be accepted" in log.read_text())
        pool.until("it accepts them", lambda: "connections are accepted again" in log.read_text())
    told = log.read_text().splitlines()[before:]
    assert sum("Too many open files" in line for line in told) == 1 and len(told) < 10


def test_silent_connections_to_a_collector_out_of_descriptors_have_no_line_each(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR\n")
    pool.up()
    collector = pool.pid("collector")
    assert collector is not None
    log, out = pool.home.log / "CollectorLog", pool.home.log / "collector.out"
    socket_line = re.compile(r"command socket at <127\.0\.0\.1:(\d+)>")
    pool.until("its log names its port", lambda: socket_line.search(log.read_text()))
    (port,) = socket_line.findall(log.read_text())
    before = len(log.read_text().splitlines())
    with ExitStack() as connections:
        with no_descriptor_left(collector):
            for _ in range(15):
                connections.enter_context(socket.create_connection(("127.0.0.1", int(port))))
            pool.until("gRPC has met it", lambda: out.read_text().count("descriptor limit") >= 3)
        pool.until("it answers", lambda: pool.run("status", "-any", "-af", "MyType").stdout)
    by_second = Counter(re.findall(r"^E\d+ (\S+)\.\d+ ", out.read_text(), re.MULTILINE))
    assert max(by_second.values()) <= 2 and len(log.read_text().splitlines()) - before < 10

"""Work fetched by hooks on a real pool: what is taken, where its files and its end go, and what a kill leaves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pool.test_execution_point import slots
from tests.support.pool import Pool

#: Takes the first file of `todo`, prints it, and notes it; what a queue behind a network would do.
FETCH = """#!/bin/sh
cat > {q}/slot.ad
first=$(ls {q}/todo | head -n 1)
echo "fetch ${{first:-nothing}}" >> {q}/log
[ -n "$first" ] || exit 0
mv {q}/todo/$first {q}/taken/$first && cat {q}/taken/$first
"""
HEARS = """#!/bin/sh
heard={q}/heard/{name}.$$
sed 's/^/{name} /' > $heard
item=$(sed -n 's/^{name} Item = "\\(.*\\)"/\\1/p' $heard)
claim=$(sed -n 's/^{name} ClaimId = "\\(.*\\)"/\\1/p' $heard)
echo "{name} $item $1 $claim" >> {q}/log
"""


class Queue:
    """A directory that hooks take work from; ``log`` has a line for each time that a hook ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("", "todo", "taken", "hooks", "done", "heard"):
            (place / name).mkdir(mode=0o755, parents=True)
        self.hook("fetch", FETCH)
        for name in ("reply", "evict", "exit"):
            self.hook(name, HEARS)

    def hook(self, name: str, text: str) -> Path:
        path = self.place / "hooks" / name
        fresh = path.with_suffix(".new")
        fresh.write_text(text.format(q=self.place, name=name))
        fresh.chmod(0o755)
        return fresh.rename(path)

    def knobs(self, **more: str) -> str:
        hooks = self.place / "hooks"
        knobs = {
            "STARTD_JOB_HOOK_KEYWORD": "Q", "Q_HOOK_FETCH_WORK": f"{hooks}/fetch",
            "Q_HOOK_REPLY_FETCH": f"{hooks}/reply", "Q_HOOK_EVICT_CLAIM": f"{hooks}/evict",
            "Q_HOOK_JOB_EXIT": f"{hooks}/exit",
            "FetchWorkDelay": "1",
            "NUM_CPUS": "2", "NUM_SLOTS": "1", "RunBenchmarks": "false", "POLLING_INTERVAL": "1",
            "NEGOTIATOR_INTERVAL": "1",
            "DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD", **more,
        }  # fmt: skip
        return "".join(f"{name} = {value}\n" for name, value in knobs.items())

    def put(self, item: str, cmd: str = "/bin/true", **attributes: Any) -> None:
        ad = {"Item": item, "Cmd": cmd, "Owner": "nobody", **attributes}
        lines = (f"{name} = {json.dumps(value)}\n" for name, value in ad.items())
        (self.place / f"{item}.new").write_text("".join(lines))
        (self.place / f"{item}.new").rename(self.place / "todo" / item)

    def log(self) -> list[list[str]]:
        path = self.place / "log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def heard(self, name: str, item: str) -> list[list[str]]:
        """What a hook was told of an item, each time: its argument and the ClaimId, where it got them."""
        return [words[2:] for words in self.log() if words[:2] == [name, item]]


@pytest.fixture
def queue(open_directory: Path) -> Queue:
    place = Queue(open_directory / "queue")
    for path in ("done", "heard"):  # the hook at a job's end runs as the job's user
        (place.place / path).chmod(0o777)
    (place.place / "log").touch()
    (place.place / "log").chmod(0o666)
    return place


def state(pool: Pool) -> list[str]:
    return sorted(f"{ad['State']}/{ad['Activity']}" for ad in slots(pool))


def test_work_is_fetched_run_and_its_end_told(make_pool: Callable[[str], Pool], queue: Queue) -> None:
    done = queue.place / "done"
    queue.put("one", "/bin/sh", Arguments="-c 'echo hello $WHO; echo oops >&2; cat; exit 3'", Environment="WHO=you",
              Iwd=str(done), In="/etc/hostname", Out="out", Err=f"{done}/err", RequestCpus=1)  # fmt: skip
    queue.put("two", "/bin/pwd", Out=str(done / "cwd"))
    pool = make_pool(queue.knobs())
    pool.up()
    pool.until("both have ended", lambda: queue.heard("exit", "one") and queue.heard("exit", "two"))
    assert (done / "out").read_text() == "hello you\n" + Path("/etc/hostname").read_text()
    assert (done / "err").read_text() == "oops\n"
    execute = pool.run("config", "val", "EXECUTE").stdout.strip()
    assert (done / "cwd").read_text().startswith(execute), "without Iwd a job works in its scratch directory"
    (reply,) = queue.heard("reply", "one")
    assert reply[0] == "accept" and reply[1].count("#") == 3
    assert queue.heard("exit", "one") == [["exit"]]
    told = "".join(path.read_text() for path in queue.place.glob("heard/exit.*"))
    assert "exit ExitCode = 3\n" in told and 'exit HookKeyword = "Q"\n' in told
    pool.until("the slot is free again", lambda: state(pool) == ["Unclaimed/Idle"])
    assert not queue.heard("evict", "one"), "work that came to its end is not evicted"
    (ad,) = slots(pool)
    assert int(str(ad["LastFetchWorkCompleted"])) >= int(str(ad["LastFetchWorkSpawned"])) > 0
    assert int(str(ad["NextFetchWorkDelay"])) == 1
    given = (queue.place / "slot.ad").read_text()
    assert "State = " in given and not re.search("^ClaimId", given, re.MULTILINE)
    pool.down()


def test_the_order_of_rank(make_pool: Callable[[str], Pool], queue: Queue, tmp_path: Path) -> None:
    """Side by side with HTCondor 25.14: fetched work is asked for while a job runs; an equal rank is refused; a
    negotiated job of higher rank makes the fetched one leave. That fetched work of higher rank makes another leave is
    the manual's word: HTCondor replies ``accept`` and never starts it. It never calls the hook of evicted claims
    either."""
    pool = make_pool(queue.knobs(RANK="TARGET.Liking", MaxJobRetirementTime="0"))
    sleep = {"Arguments": "1000", "JobUniverse": 5}
    queue.put("first", "/bin/sleep", Liking=1, **sleep)
    pool.up()
    pool.until("it runs", lambda: state(pool) == ["Claimed/Busy"])
    queue.put("equal", "/bin/sleep", Liking=1, **sleep)
    pool.until("an equal one is refused", lambda: queue.heard("reply", "equal"))
    assert queue.heard("reply", "equal") == [["reject"]]
    queue.put("better", "/bin/sleep", Liking=2, **sleep)
    pool.until("a better one is taken", lambda: queue.heard("reply", "better"))
    pool.until("the first has left", lambda: queue.heard("exit", "first") and queue.heard("evict", "first"))
    assert queue.heard("exit", "first") == [["evict"]]
    assert queue.heard("evict", "first")[0][-1] == queue.heard("reply", "first")[0][1], "the same ClaimId"
    description = tmp_path / "job.sub"
    description.write_text("executable = /bin/sleep\ntransfer_executable = false\narguments = 1\n+Liking = 3\n"
                           "request_memory = 10\nlog = job.log\nqueue\n")  # fmt: skip
    pool.run("submit", str(description), cwd=tmp_path)
    pool.until("the negotiated job has run", lambda: "\n005 (" in (tmp_path / "job.log").read_text())
    pool.until("the better one has left", lambda: queue.heard("evict", "better"))
    assert not queue.heard("evict", "equal")
    pool.down()


def test_a_partitionable_slot_is_carved_for_it(make_pool: Callable[[str], Pool], queue: Queue) -> None:
    shape = {"SLOT_TYPE_1": "100%", "SLOT_TYPE_1_PARTITIONABLE": "true", "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS": ""}
    # The keyword of the slot is that of its dynamic slots, which HTCondor asks for slot1_1 and does not find.
    shape |= {"STARTD_JOB_HOOK_KEYWORD": "", "SLOT_TYPE_1_JOB_HOOK_KEYWORD": "Q"}
    shape["FetchWorkDelay"] = 'ifThenElse(Activity == "Busy", 3600, 1)'  # slots in use do not ask
    pool = make_pool(queue.knobs(**shape))
    asks: dict[str, Any] = {"RequestCpus": 1, "RequestMemory": 16, "RequestDisk": 10, "Requirements": False}
    wait = {"Arguments": "-c 'while [ ! -e go ]; do sleep 0.1; done'", "Iwd": str(queue.place / "done")}
    queue.put("a", "/bin/sh", **wait, **asks)
    queue.put("b", "/bin/sleep", Arguments="1000", **asks)
    pool.up()
    pool.until("both run", lambda: state(pool) == ["Claimed/Busy", "Claimed/Busy", "Unclaimed/Idle"])
    queue.put("dumb", "/bin/true")
    pool.until("one that asks for nothing is refused", lambda: queue.heard("reply", "dumb"))
    assert queue.heard("reply", "dumb") == [["reject"]], "as in HTCondor"
    queue.put("c", "/bin/true", **asks)
    (queue.place / "done/go").touch()
    pool.until("the claim of the first serves the next, or another slot does", lambda: queue.heard("exit", "c"))
    pool.until("one has gone", lambda: state(pool) == ["Claimed/Busy", "Unclaimed/Idle"])
    pool.run("vacate", "localhost")
    pool.until("the other is given back", lambda: queue.heard("evict", "b"))
    pool.until("the slot is whole", lambda: state(pool) == ["Unclaimed/Idle"])
    pool.down()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho this is not an ad\n", "line 1 of its output is not an attribute: this is not an ad"),
        ("#!/bin/sh\nprintf 'Cmd = \"/bin/true\"\\nX = (\\n'\n", "line 2 of its output is not an attribute"),
        ("#!/bin/sh\nyes 'Cmd = 1'\n", "printed more than 1024 KiB"),
        ("#!/bin/sh\necho 'Cmd = \"/bin/true\"'; kill -9 $$\n", "died of signal 9: what it printed is not used"),
        ("#!/bin/sh\necho 'Cmd = \"/bin/true\"'; sleep 1000\n", "did not end within 2 s"),
        ("#!/bin/sh\necho Owner = 1\n", "names no program (Cmd)"),
        ("#!/no/such/interpreter\n", "exited with status"),
    ],
)  # fmt: skip
def test_a_hook_that_fails_is_contained(make_pool: Callable[[str], Pool], queue: Queue, text: str, said: str) -> None:
    queue.hook("fetch", text)
    pool = make_pool(queue.knobs(FetchWorkDelay="0", SLOTWISE_FETCH_WORK_TIMEOUT="2"))
    pool.up()
    log = pool.home.log / "StartLog"
    pool.until(f"the log says {said}", lambda: said in log.read_text())
    assert state(pool) == ["Unclaimed/Idle"]
    assert len(log.read_text()) < 20_000, "it is not tried all the time"
    pool.down()


def without_times(log: str) -> str:
    log = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", log)
    return re.sub(r"Usr .*Sys \d \S+", "CPU", re.sub(r"host: <[^>]+>", "host: <ADDRESS>", log))


#: What HTCondor 25.14's starter writes for a fetched job that exits with 3.
TERMINATED = """\
001 (001.000.000) WHEN Job executing on host: <ADDRESS>
...
005 (001.000.000) WHEN Job terminated.
	(1) Normal termination (return value 3)
		CPU  -  Run Remote Usage
		CPU  -  Run Local Usage
		CPU  -  Total Remote Usage
		CPU  -  Total Local Usage
	0  -  Run Bytes Sent By Job
	0  -  Run Bytes Received By Job
	0  -  Total Bytes Sent By Job
	0  -  Total Bytes Received By Job
...
"""
EVICTED = """\
001 (007.002.000) WHEN Job executing on host: <ADDRESS>
...
004 (007.002.000) WHEN Job was evicted.
	(0) CPU times
		CPU  -  Run Remote Usage
		CPU  -  Run Local Usage
	0  -  Run Bytes Sent By Job
	0  -  Run Bytes Received By Job
...
"""


def test_fetched_work_has_a_log_of_its_own(make_pool: Callable[[str], Pool], queue: Queue) -> None:
    done = queue.place / "done"
    rest = "TARGET.ClusterId =?= 7 && time() - EnteredCurrentActivity >= 1"
    pool = make_pool(queue.knobs(WANT_SUSPEND="True", SUSPEND=rest, CONTINUE=rest, WANT_VACATE="True"))
    queue.put("one", "/bin/sh", Arguments="-c 'exit 3'", Iwd=str(done), StarterUserLog="one.log")
    pool.up()
    pool.until("its end is told", lambda: queue.heard("exit", "one"))
    pool.until("its end is in its log", lambda: "005 (" in (done / "one.log").read_text())
    assert without_times((done / "one.log").read_text()) == TERMINATED
    assert (done / "one.log").stat().st_mode & 0o777 == 0o644
    assert (done / "one.log").owner() == ("nobody" if os.geteuid() == 0 else Path("/proc/self").owner())
    queue.put("two", "/bin/sleep", Arguments="1000", ClusterId=7, ProcId=2, StarterUserLog=str(done / "two.log"))
    log = done / "two.log"
    pool.until("it was suspended and goes on", lambda: log.exists() and "\n011 (007.002.000)" in log.read_text())
    assert "Job was suspended.\n\tNumber of processes actually suspended: 1\n...\n" in log.read_text()
    pool.run("vacate", "localhost")
    pool.until("its end is in its log", lambda: "\n004 (" in log.read_text())
    assert without_times(re.sub(r"01[01] \((?s:.*?)\n\.\.\.\n", "", log.read_text())) == EVICTED
    pool.down()


UNWRITABLE: dict[str, tuple[dict[str, Any], str]] = {
    "place": ({"StarterUserLog": "/no/such/place/log"}, "cannot write /no/such/place/log: No such file or directory"),
    "pipe": ({"StarterUserLog": "pipe"}, "done/pipe: No such device or address"),
    "number": ({"StarterUserLog": 5}, "StarterUserLog of the job is not the name of a file"),
    "xml": ({"StarterUserLog": "x", "StarterUserLogUseXML": True}, "StarterUserLogUseXML: event logs are written as"),
}


def test_work_whose_log_cannot_be_written_does_not_start(make_pool: Callable[[str], Pool], queue: Queue) -> None:
    """As with HTCondor, whose starter aborts."""
    done = queue.place / "done"
    os.mkfifo(done / "pipe")
    (done / "pipe").chmod(0o666)
    for item, (attributes, _) in UNWRITABLE.items():
        queue.put(item, "/bin/sh", Arguments="-c 'touch ran'", Iwd=str(done), **attributes)
    pool = make_pool(queue.knobs(NUM_CPUS="4", NUM_SLOTS="4"))
    pool.up()
    pool.until("the queue has all back", lambda: all(queue.heard("evict", item) for item in UNWRITABLE))
    log = pool.home.log / "StarterLog"
    pool.until("the log says why", lambda: all(said in log.read_text() for _, said in UNWRITABLE.values()))
    assert not (done / "ran").exists()
    pool.down()

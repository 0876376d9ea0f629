"""A fixed list of small jobs, and the event logs that they leave: normalised, so that two systems can be compared.

Run as a program in an HTCondor pool (25.14.1, with ``KNOBS``, Python 3.11 or later beside its tools) in
an empty directory, this prints what ``tests/conformance/job-events.json`` holds::

    python3 job_events.py > job-events.json
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import LIMIT_S, block_until

#: What pools need for these jobs, besides short intervals.
KNOBS = {
    "NUM_CPUS": "60",
    "MEMORY": "61440",
    "NUM_SLOTS_TYPE_1": "1",
    "SLOT_TYPE_1": "100%",
    "SLOT_TYPE_1_PARTITIONABLE": "True",
    "MACHINE_RESOURCE_Foo": "a, b, c, d",
    "PERIODIC_EXPR_INTERVAL": "1",
    "PERIODIC_EXPR_TIMESLICE": "0.9",
    "POLLING_INTERVAL": "1",
    "UPDATE_INTERVAL": "5",
    "STARTER_UPDATE_INTERVAL": "5",
    "STARTER_INITIAL_UPDATE_INTERVAL": "2",
    "NEGOTIATOR_INTERVAL": "2",
    "NEGOTIATOR_CYCLE_DELAY": "1",
    "NEGOTIATOR_MIN_INTERVAL": "1",
    "SYSTEM_PERIODIC_HOLD": "HoldBySystem =?= True && NumJobStarts > 0",
    "SYSTEM_PERIODIC_REMOVE_NAMES": "Unwanted",
    "SYSTEM_PERIODIC_REMOVE_Unwanted": "RemoveBySystem =?= True",
    "WANT_SUSPEND": "False",
    "WANT_VACATE": "False",
    "KILL": "False",
    "PREEMPT": "TARGET.PreemptMe =?= True && TARGET.NumJobStarts < 1 && time() - MY.EnteredCurrentActivity > 4",
    "WANT_HOLD": "TARGET.HoldMe =?= True",
    "WANT_HOLD_REASON": 'strcat("not wanted", " here")',
    "WANT_HOLD_SUBCODE": "7",
}

#: Numbers of events.
SUBMIT, EXECUTE, EVICTED, TERMINATED, ABORTED, HELD, RELEASED = "000", "001", "004", "005", "009", "012", "013"
SUSPENDED, CLUSTER_REMOVED, EDITED = "010", "036", "033"


@dataclass(frozen=True)
class Act:
    """A command on the job, given when its log has the event ``after``; ``words`` without the job's id."""

    after: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """A job with its program, a shell script; ``last`` is the event that ends its log."""

    name: str
    shell: str
    last: str
    lines: tuple[str, ...] = ()
    acts: tuple[Act, ...] = ()


SLEEP = "exec sleep 100"
#: A job that goes on until it is evicted, and ends when it has been started again.
ONCE = "grep -q '^NumJobStarts = 0' $_CONDOR_JOB_AD && exec sleep 100; exit 0"

JOBS = (
    Job("success", "echo x > out.txt; sleep 1", TERMINATED, ("batch_name = some name",)),
    Job("notes", "exit 0", TERMINATED, ("submit_event_notes = note one", "submit_event_user_notes = note two")),
    Job("code3", "exit 3", TERMINATED),
    Job("signal", "kill -9 $$", TERMINATED),
    # In a group of its own, so that no other job takes over its slot.
    Job("custom", "sleep 1", TERMINATED, ("request_foo = 2", "accounting_group = custom")),
    Job("many", "exit 0", CLUSTER_REMOVED, ("max_materialize = 1",)),
    Job("retry", "exit 3", TERMINATED, ("max_retries = 1",)),
    Job("exit_hold", "exit 3", HELD, ("on_exit_hold = ExitCode == 3",)),
    Job("policy_hold", SLEEP, HELD, ("periodic_hold = NumJobStarts > 0 && 1 < 2",)),
    Job("policy_remove", SLEEP, ABORTED, ("periodic_remove = NumJobStarts > 0 && (3 + 4) > 2",)),
    Job("policy_release", "exit 0", TERMINATED, ("hold = true", "periodic_release = HoldReasonCode == 15")),
    Job("system_hold", SLEEP, HELD, ("+HoldBySystem = True",)),
    Job("system_remove", SLEEP, ABORTED, ("+RemoveBySystem = True", "requirements = False")),
    Job(
        "policy_vacate",
        ONCE,
        TERMINATED,
        ("+PeriodicVacate = JobStatus == 2 && NumJobStarts > 0 && (NumVacates ?: 0) < 1",),
    ),
    Job("too_long", SLEEP, HELD, ("allowed_execute_duration = 2",)),
    Job("hold_running", SLEEP, HELD, (), (Act(EXECUTE, ("hold",)),)),
    Job("hold_reason", SLEEP, HELD, (), (Act(EXECUTE, ("hold", "-reason", "my reason", "-subcode", "7")),)),
    Job("hold_idle", SLEEP, HELD, ("requirements = False",), (Act(SUBMIT, ("hold",)),)),
    Job("released", ONCE, TERMINATED, (), (Act(EXECUTE, ("hold",)), Act(HELD, ("release",)))),
    Job("remove_running", SLEEP, ABORTED, (), (Act(EXECUTE, ("rm",)),)),
    Job("remove_reason", SLEEP, ABORTED, (), (Act(EXECUTE, ("rm", "-reason", "my reason")),)),
    Job("remove_idle", SLEEP, ABORTED, ("requirements = False",), (Act(SUBMIT, ("rm",)),)),
    Job("remove_held", SLEEP, ABORTED, ("hold = true",), (Act(SUBMIT, ("rm",)),)),
    Job("remove_after_hold", SLEEP, ABORTED, (), (Act(EXECUTE, ("hold",)), Act(HELD, ("rm",)))),
    Job("vacated", ONCE, TERMINATED, (), (Act(EXECUTE, ("vacate-job",)),)),
    Job("vacated_fast", ONCE, TERMINATED, (), (Act(EXECUTE, ("vacate-job", "-fast")),)),
    Job("suspended", "sleep 15", TERMINATED, (), (Act(EXECUTE, ("suspend",)), Act(SUSPENDED, ("continue",)))),
    Job("edited", SLEEP, EDITED, ("requirements = False",), (Act(SUBMIT, ("prio", "-p", "5")),)),
    Job("no_program", "exit 0", HELD, ("executable = /nonexistent/prog", "transfer_executable = False")),
    Job(
        "no_program_arguments",
        "exit 0",
        HELD,
        ("executable = /nonexistent/prog", "transfer_executable = False", "arguments = \"one 'two three'\""),
    ),
    Job("directory_program", "exit 0", HELD, ("executable = /tmp", "transfer_executable = False")),
    Job("no_input", "exit 0", HELD, ("transfer_input_files = missing", "skip_filechecks = True")),
    Job("no_output", "exit 0", HELD, ("transfer_output_files = missing",)),
    Job(
        "output_nowhere",
        "echo x > result",
        HELD,
        ("transfer_output_files = result", 'transfer_output_remaps = "result=/nonexistent/dir/x"'),
    ),
    Job("much_input", "exit 0", HELD, ("transfer_input_files = much", "max_transfer_input_mb = 1")),
    Job(
        "much_output",
        "dd if=/dev/zero of=much.out bs=1M count=2 2>/dev/null",
        HELD,
        ("transfer_output_files = much.out", "max_transfer_output_mb = 1"),
    ),
    Job("startd_hold", SLEEP, HELD, ("+PreemptMe = True", "+HoldMe = True")),
    Job("preempted", ONCE, TERMINATED, ("+PreemptMe = True",)),
)

Command = Callable[[Sequence[str]], str]


def description(job: Job, work: Path) -> str:
    """The job's submit description; its program and log lie in ``work``."""
    (work / f"{job.name}.sh").write_text(f"#!/bin/sh\n{job.shell}\n")
    (work / f"{job.name}.sh").chmod(0o755)
    return "\n".join(
        [
            f"executable = {job.name}.sh",
            f"log = {job.name}.log",
            f"output = {job.name}.out",
            f"error = {job.name}.err",
            "request_memory = 64",
            "request_disk = 10240",
            "should_transfer_files = yes",
            *job.lines,
            "queue",
            "",
        ]
    )


def split(text: str) -> list[str]:
    """The whole events of a log."""
    return re.split(r"(?m)^\.\.\.\n", text)[:-1]


def drive(jobs: Sequence[Job], command: Command, work: Path) -> dict[str, list[str]]:
    """Submit the jobs, do to them what is to be done, and give their whole logs, event by event.

    :param command: runs a command of the pool, its name first, in ``work``; gives what it printed.
    """
    (work / "much").write_bytes(bytes(2 << 20))
    ids: dict[str, str] = {}
    for job in jobs:
        (work / f"{job.name}.sub").write_text(description(job, work))
        ids[job.name] = command(["submit", "-terse", f"{job.name}.sub"]).split()[0]
    left = {job.name: list(job.acts) for job in jobs}
    logs: dict[str, list[str]] = {job.name: [] for job in jobs}
    open_jobs = list(jobs)

    def all_ended() -> bool:
        for job in list(open_jobs):
            path = work / f"{job.name}.log"
            events = logs[job.name] = split(path.read_text()) if path.exists() else []
            numbers = [event[:3] for event in events]
            if left[job.name] and left[job.name][0].after in numbers:
                words = left[job.name].pop(0).words
                command([*words, ids[job.name]])
            elif not left[job.name] and job.last in numbers:
                open_jobs.remove(job)
        return not open_jobs

    def told() -> str:
        return f"no end of {[(job.name, [event[:3] for event in logs[job.name]]) for job in open_jobs]}"

    block_until(all_ended, "all jobs have ended", limit_s=3 * LIMIT_S, told=told)
    return logs


def normalised(event: str, work: Path, user: str) -> str:
    """An event without what differs from pool to pool and from time to time."""
    number, _, rest = event.partition(" ")
    head = re.match(r"\(\d+\.(-?\d+)\.\d+\) \S+ \S+ ", rest)
    assert head, event
    text = f"{number} {rest[head.end() :]}"
    text = text.replace(str(work), "WORK").replace(f"(by user {user})", "(by user USER)")
    text = re.sub(r"<[^<>\n]*>", "<HOST>", text)
    text = re.sub(r"\bslot\d+(_\d+)?@[\w-]+(\.[\w-]+)*", "SLOT", text)
    text = re.sub(r"(/[\w.-]+)+/(dir_\d+/scratch|dir_[\w.-]+|[\w.-]*scratch)(?=[/\"]|$)", "SCRATCH", text, flags=re.M)
    text = re.sub(r"(access point|STARTER at|SHADOW at) [\w-]+(\.[\w-]+)*", r"\1 AP", text)
    text = re.sub(r"Usr \d+ [\d:]+, Sys \d+ [\d:]+", "Usr, Sys", text)
    text = re.sub(r"\t\d+(  -  (Run|Total) Bytes)", r"\t0\1", text)
    text = re.sub(r"(actually suspended:) \d+", r"\1 N", text)
    lines = [_row(line) if line.startswith("\t   ") else line for line in text.splitlines()]
    # Whether the last report of a run had the times in it depends on the moment of its end.
    return "\n".join(line for line in lines if not line.startswith("\t   Time"))


def _row(line: str) -> str:
    """A row of the table of resources without its usage, which depends on the moment it was taken."""
    name, _, figures = line.partition(" :")
    return f"\t   {name.strip()} : {' '.join(figures[9:].split())}".rstrip()


def without_sizes(events: Sequence[str]) -> list[str]:
    """Events but those of the image's size (006), whose number and moments depend on the machine's load."""
    return [event for event in events if not event.startswith("006 ")]


def main() -> None:
    """Record an HTCondor pool's answers."""
    work = Path.cwd()
    tools = {"vacate-job": "condor_vacate_job"}

    def command(words: Sequence[str]) -> str:
        name = tools.get(words[0], f"condor_{words[0]}")
        done = subprocess.run([name, *words[1:]], capture_output=True, text=True, cwd=work)
        if done.returncode:
            sys.stderr.write(f"{name} {words[1:]}: {done.stdout}{done.stderr}\n")
        return done.stdout

    logs = drive(JOBS, command, work)
    user = os.environ.get("USER") or subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    whole = {name: [normalised(event, work, user) for event in events] for name, events in logs.items()}
    json.dump(whole, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

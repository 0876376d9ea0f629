"""Shares of a live pool whose claims are reused: who holds how many cores, and how many are idle, second by second.

Two users submit jobs of one second to eight cores, the second five seconds after the first. What the negotiator decides
is known beforehand (halves; three quarters to a quarter). ``python bench/bench_shares.py COMMAND`` measures another
installation's ``slotwise`` command in the same way.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from harness import Report

OUT = Path(__file__).resolve().parent / "out"
CORES = 8
#: Shares are looked at from so long after the second submission, for so long (seconds).
SETTLED_S, WINDOW_S = 10.0, 30.0
_EVENT = re.compile(r"^(\d{3}) \((\d+\.\d+)\.\d+\) (\S+ \S+)", re.MULTILINE)
_EXECUTE, _TERMINATED, _EVICTED = "001", "005", "004"


@dataclass(frozen=True)
class Users:
    """What one scenario submits."""

    name: str
    #: Priority factors of the first and second user.
    factors: tuple[float, float] = (1000.0, 1000.0)
    jobs: int = 600
    seconds: float = 1.0
    config: str = ""


SCENARIOS = (
    Users("equal factors"),
    Users("factors 1 : 3", factors=(1000.0, 3000.0)),
    Users("static slots", config="NUM_SLOTS_TYPE_1 = 8\nSLOT_TYPE_1 = cpus=1\nSLOT_TYPE_1_PARTITIONABLE = False\n"),
    Users("jobs of a third of a second", jobs=2400, seconds=0.33),
)


class Pool:
    """A pool in a temporary home."""

    def __init__(self, root: Path, command: str, config: str) -> None:
        self.root, self.command = root, command
        root.chmod(0o755)
        text = f"NUM_CPUS = {CORES}\nMEMORY = 16384\nDEFAULT_USERLOG_FORMAT_OPTIONS = ISO_DATE, SUB_SECOND\n{config}"
        (root / "condor_config").write_text(text)
        self.env = {**os.environ, "SLOTWISE_HOME": str(root / "home"), "CONDOR_CONFIG": str(root / "condor_config")}
        self.env["_CONDOR_SLOTWISE_MIN_UID"] = "0"  # root may run this

    def run(self, *words: str) -> str:
        """Standard output of ``slotwise words...``; a failure ends the benchmark."""
        done = subprocess.run([self.command, *words], cwd=self.root, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"slotwise {' '.join(words)} failed: {done.stderr}")
        return done.stdout

    def submit(self, user: str, jobs: int, seconds: float) -> None:
        """Queue jobs that sleep, for a user."""
        (self.root / f"{user}.sub").write_text(
            f"executable = /bin/sleep\narguments = {seconds}\nlog = {user}.log\n"
            "request_memory = 64M\nrequest_disk = 1M\n"
            f"transfer_executable = false\naccounting_group = {user}\naccounting_group_user = {user}\nqueue {jobs}\n"
        )
        self.run("submit", f"{user}.sub")


def spans(log: Path) -> list[tuple[float, float]]:
    """From when to when each job of an event log ran, epoch seconds; one that still runs has no end (infinity)."""
    begun: dict[str, float] = {}
    out = []
    for number, job, stamp in _EVENT.findall(log.read_text()):
        at = datetime.fromisoformat(stamp).timestamp()
        if number == _EXECUTE:
            begun[job] = at
        elif number in (_TERMINATED, _EVICTED) and job in begun:
            out.append((begun.pop(job), at))
    return out + [(at, float("inf")) for at in begun.values()]


def core_seconds(of: list[tuple[float, float]], start: float, end: float) -> float:
    """How much of a window the spans fill."""
    return sum(max(0.0, min(end, to) - max(start, since)) for since, to in of)


def measure(report: Report, users: Users, command: str) -> None:
    """Run one scenario."""
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as directory:
        pool = Pool(Path(directory), command, users.config)
        pool.run("up")
        try:
            domain = pool.run("config", "val", "UID_DOMAIN").strip()
            for user, factor in zip(("ann", "ben"), users.factors, strict=True):
                pool.run("userprio", "-setfactor", f"{user}.{user}@{domain}", str(factor))
            pool.submit("ann", users.jobs, users.seconds)
            time.sleep(5)
            second = time.time()
            pool.submit("ben", users.jobs, users.seconds)
            time.sleep(SETTLED_S + WINDOW_S + 1 - (time.time() - second))
            start, end = second + SETTLED_S, second + SETTLED_S + WINDOW_S
            ann, ben = (spans(pool.root / f"{user}.log") for user in ("ann", "ben"))
        finally:
            pool.run("down", "--fast")
    first, later = core_seconds(ann, start, end), core_seconds(ben, start, end)
    weights = [1 / factor for factor in users.factors]
    due = CORES * weights[0] / sum(weights)
    per_s = [core_seconds(ann, at, to) for at, to in pairwise(second + n for n in range(int(SETTLED_S + WINDOW_S)))]
    print("cores of the first user, second by second:", " ".join(f"{cores:.1f}" for cores in per_s))
    report.add(f"{users.name}: cores of the first user", "cores", first / WINDOW_S, target=f"{due:g} +- 10 %")
    report.add(f"{users.name}: cores of the second user", "cores", later / WINDOW_S, target=f"{CORES - due:g} +- 10 %")
    used = (first + later) / (CORES * WINDOW_S) * 100
    report.add(f"{users.name}: cores in use", "%", used, target="95")
    moving = core_seconds(ann, second, start) + core_seconds(ben, second, start)
    report.add(f"{users.name}: cores in use while shares change", "%", moving / (CORES * SETTLED_S) * 100)


def main(args: list[str]) -> int:
    """Run all scenarios, or those whose names contain a word, with this installation's command or another."""
    beside = Path(sys.executable).with_name("slotwise")
    command = next((word for word in args if "/" in word), str(beside) if beside.exists() else "slotwise")
    words = [word for word in args if "/" not in word]
    report = Report("Shares")
    for users in SCENARIOS:
        if not words or any(word in users.name for word in words):
            measure(report, users, command)
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

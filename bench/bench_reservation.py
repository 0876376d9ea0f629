"""The wait of a large job on a live pool full of small ones, with and without a machine kept for it.

Eight cores, 150 one-core jobs of 4 to 12 seconds of one user, then one eight-core job of another. Besides: how many
core-seconds stood idle until it started. ``python bench/bench_reservation.py COMMAND`` measures another installation's
``slotwise`` command in the same way.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench_shares import CORES, Pool, core_seconds, spans
from harness import Report

OUT = Path(__file__).resolve().parent / "out"
#: So long the small jobs run alone, and so long the large one is waited for (seconds).
_ALONE_S, _MOST_S = 20.0, 80.0


def measure(report: Report, knobs: str, name: str, command: str) -> None:
    """Run it once."""
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as directory:
        pool = Pool(Path(directory), command, knobs)
        pool.run("up")
        try:
            common = "transfer_executable = false\nrequest_memory = 64M\nrequest_disk = 1M\n"
            users = "accounting_group = {0}\naccounting_group_user = {0}\nlog = {0}.log\n"
            lengths = "\n".join(str(4 + number % 9) for number in range(150))
            (pool.root / "small.sub").write_text(
                f"{common}{users.format('small')}executable = /bin/sleep\narguments = $(length)\n"
                f"queue length from (\n{lengths}\n)\n"
            )
            (pool.root / "large.sub").write_text(
                f"{common}{users.format('large')}executable = /bin/sleep\narguments = 1\n"
                f"request_cpus = {CORES}\nqueue\n"
            )
            pool.run("submit", "small.sub")
            time.sleep(_ALONE_S)
            submitted = time.time()
            pool.run("submit", "large.sub")
            log = pool.root / "large.log"
            while not spans(log) and time.time() < submitted + _MOST_S:
                time.sleep(0.2)
            started = min((since for since, _ in spans(log)), default=submitted + _MOST_S)
            idle = CORES * (started - submitted) - core_seconds(spans(pool.root / "small.log"), submitted, started)
        finally:
            pool.run("down", "--fast")
    note = "" if started < submitted + _MOST_S else "had not started then"
    report.add(f"{name}: wait of the large job", "s", started - submitted, target="15", note=note)
    report.add(f"{name}: idle meanwhile", "core-s", idle)


def main(args: list[str]) -> int:
    """With the knob and without."""
    beside = Path(sys.executable).with_name("slotwise")
    command = args[0] if args else str(beside) if beside.exists() else "slotwise"
    report = Report("Reservation")
    measure(report, "NEGOTIATOR_RESERVE_FOR_LARGE_JOBS = True\n", "a machine is kept", command)
    measure(report, "NEGOTIATOR_RESERVE_FOR_LARGE_JOBS = False\n", "no machine is kept", command)
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

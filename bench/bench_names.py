"""Calls a second under HTCondor's names from shells, as scripts that poll a queue make them: one after the other from
one of them, and from two at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_pool import OUT, Pool
from harness import Report

#: What is called, and a word that each answer has.
CALLS = {
    "condor_version": "CondorVersion",
    "condor_q -totals": "Total for query",
    "condor_q {cluster}.0 -af JobStatus": "5",
    "condor_q -nobatch": "10 jobs",
    "condor_status -total": "Total",
    "condor_config_val NUM_CPUS": "40",
    "condor_prio -p 1 {cluster}.0": "",
}
#: Short rounds: the fastest is what a host gives that has nothing else to do.
ROUNDS = 20
COUNT = 30
CALLERS = (1, 2)


def rate(pool: Pool, words: str, callers: int) -> float:
    """Calls a second of so many shells together."""
    loop = f"i=0; while [ $i -lt {COUNT} ]; do {words} || exit 1; i=$((i + 1)); done"
    start = time.perf_counter()
    shells = [
        subprocess.Popen(["/bin/sh", "-c", loop], env=pool.env, cwd=pool.root, stdout=subprocess.DEVNULL)
        for _ in range(callers)
    ]
    ended = [shell.wait() for shell in shells]
    assert not any(ended), words
    return callers * COUNT / (time.perf_counter() - start)


def main() -> int:
    """All on one pool with some held jobs."""
    report = Report("Names")
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as directory:
        pool = Pool(Path(directory))
        pool.run("up")
        try:
            names = pool.run("condor-names", "--in", str(pool.root / "names")).strip()
            pool.env["PATH"] = f"{names}:{pool.env['PATH']}"
            cluster = pool.submit("executable = /bin/true\nhold = true\nqueue 10\n")
            report.add("/bin/true, for comparison", "calls/s", [rate(pool, "/bin/true", 1) for _ in range(ROUNDS)])
            for words, expected in CALLS.items():
                call = words.format(cluster=cluster)
                answer = subprocess.run(call.split(), env=pool.env, capture_output=True, text=True, check=True)
                assert expected in answer.stdout, f"{call}: {answer}"
                for callers in CALLERS:
                    before = os.getloadavg()[0]
                    rates = [rate(pool, call, callers) for _ in range(ROUNDS)]
                    what = f"{words}, {callers} at a time" if callers > 1 else words
                    report.add(what, "calls/s", rates, target="300", note=f"load before {before:.1f}")
        finally:
            pool.run("down")
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())

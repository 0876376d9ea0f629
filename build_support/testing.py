"""All tests in stages, each failure tried once more by itself, and a table of what took how long and what was skipped.

    python build_support/testing.py                 # rust, then quick, then real
    python build_support/testing.py --stage quick   # one of them (may be repeated)
    python build_support/testing.py --steady 10     # the tests of processes ten times, half of them beside busy loops
    python build_support/testing.py TESTS...        # these alone, by pytest's names; with --workers several at a time
    python build_support/testing.py --note-longest  # all, and write down which take longest (tests/support/longest.tsv)

``rust`` has the tests of the crates, ``quick`` what computes in its own process (unit, property, conformance and
service tests), ``real`` what starts daemons and uses the host (pools, hosts, clients). A Python test that
fails is run again alone at the end, where no more than ten did: one that passes then is reported as flaky and does not
fail the run. Results are in ``build/test-results``: a line a test by stage, ``flaky.txt``, ``skipped.txt``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "test-results"
CORES = len(os.sched_getaffinity(0))
#: Tests of pools wait more than they compute (three at a time leave 40 % of two cores idle), but each starts a dozen
#: processes: twice as many as there are cores, sixteen at most.
_WORKERS = min(CORES, 8) * 2
#: Tests of services wait now and then: one a core leaves a third of the cores idle.
_QUICK_WORKERS = CORES + CORES // 2
#: Tests of conformance that start pools.
_POOLS = ("tests/conformance/test_commands.py", "tests/conformance/test_verb_noun.py")
STAGES: dict[str, tuple[str, ...]] = {
    "quick": (
        "tests/unit", "tests/property", "tests/conformance", "tests/service", *(f"--ignore={path}" for path in _POOLS)
    ),
    "real": ("tests/pool", "tests/host", "tests/clients", *_POOLS),
}  # fmt: skip
#: The tests that take longest, so many seconds and more: `tests/support/scheduling.py` has them begin first.
_LONGEST = ROOT / "tests" / "support" / "longest.tsv"
_LONG_S = 4.0
#: What `--steady` repeats.
_STEADY = ("tests/service", "tests/pool", "tests/host", *_POOLS)
#: More failures than this have a cause that another try does not take away.
_TRIED_AGAIN = 10
#: A stage in which no test has begun or ended for so long hangs, where no limit of a test's own ends it: the longest is
#: 900 s.
_HANGS_S = 1500.0


@dataclass
class Stage:
    """What came of a stage."""

    name: str
    seconds: float = 0.0
    #: By test: its line in the results.
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Tests that began and did not end.
    unfinished: list[str] = field(default_factory=list)
    #: What kept the stage from being run as a whole.
    broken: list[str] = field(default_factory=list)

    def with_outcome(self, outcome: str) -> list[str]:
        """The tests that ended so."""
        return [name for name, row in self.tests.items() if row["outcome"] == outcome]


def say(line: str = "") -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def rust() -> Stage:
    """The tests of the crates."""
    stage = Stage("rust")
    begun = time.monotonic()
    words = ["cargo", "test", "--release", "--workspace", "--quiet"]
    if status := subprocess.run(words, cwd=ROOT, check=False).returncode:
        stage.broken.append(f"cargo test ended with {status}")
    stage.seconds = time.monotonic() - begun
    return stage


def pytest(name: str, words: Sequence[str], workers: int) -> Stage:
    """Run tests of Python as stage ``name``, ``workers`` at a time (0: in pytest's own process)."""
    results = OUT / f"{name}.jsonl"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *words, "-q", "-p", "no:cacheprovider", "-p", "tests.support.results"]
    command += ["-n", str(workers)] if workers else []
    env = os.environ | {"SLOTWISE_TEST_RESULTS": str(results)}
    # Without its byte code each worker would compile all tests, ten seconds of a core.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    stage = Stage(name)
    begun = time.monotonic()
    # What was skipped is in the table at the end, once for each reason.
    process = subprocess.Popen([*command, "--no-header", "-rfE"], cwd=ROOT, env=env, start_new_session=True)
    try:
        status = _wait(process, results)
    except KeyboardInterrupt:
        _end(process)
        raise
    stage.seconds = time.monotonic() - begun
    _read(results, stage)
    if status not in (0, 1):
        stage.broken.append("hangs" if status is None else f"pytest ended with {status}")
        stage.broken += [f"began and did not end: {test}" for test in stage.unfinished]
    return stage


def _wait(process: subprocess.Popen[bytes], results: Path) -> int | None:
    """The status of pytest; None when it did nothing for too long and was ended."""
    last, moved = -1, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(5)
        size = results.stat().st_size if results.exists() else 0
        if size != last:
            last, moved = size, time.monotonic()
        elif time.monotonic() - moved > _HANGS_S:
            _end(process)
            return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest and its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return


def _read(results: Path, stage: Stage) -> None:
    begun: dict[str, None] = {}
    lines = results.read_text().splitlines() if results.exists() else []
    for line in lines:
        row = json.loads(line)
        if "begins" in row:
            begun[row["begins"]] = None
        elif "broken" in row:
            stage.broken.append(f"{row['broken']}: {_reason(row['why'])}")
        else:
            begun.pop(row["test"], None)
            stage.tests[row["test"]] = row
    stage.unfinished = list(begun)


def _reason(text: str) -> str:
    """The line of a failure that says most: the first that pytest marks as the error, else the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line[1:] for line in lines if line.startswith("E ")]
    return (errors or lines[-1:] or [""])[0].strip()[:300]


def again(stages: Sequence[Stage]) -> dict[str, str]:
    """Run each failed test once more, with nothing beside it; returns those that pass now, with the first reason."""
    failed = [(stage, test) for stage in stages for test in stage.with_outcome("failed")]
    if not failed or len(failed) > _TRIED_AGAIN:
        return {}
    flaky: dict[str, str] = {}
    for number, (stage, test) in enumerate(failed):
        say(f"\nonce more, alone: {test}")
        tried = pytest(f"again-{number}", [test], 0)
        if tried.with_outcome("passed") and not tried.with_outcome("failed") and not tried.broken:
            flaky[test] = _reason(stage.tests[test]["why"])
            stage.tests[test]["outcome"] = "passed"
    return flaky


def note_longest(stages: Sequence[Stage]) -> None:
    """Write down the tests that took longest."""
    seconds = {test: row["seconds"] for stage in stages for test, row in stage.tests.items()}
    _LONGEST.write_text(
        "".join(f"{seconds[test]:.0f}\t{test}\n" for test in sorted(seconds) if seconds[test] >= _LONG_S)
    )


def tell(stages: Sequence[Stage], flaky: dict[str, str]) -> int:
    """Print the tables; returns the exit status."""
    say("\nstage         seconds  passed  failed  skipped")
    for stage in stages:
        counts = [len(stage.with_outcome(outcome)) for outcome in ("passed", "failed", "skipped")]
        say(f"{stage.name:12} {stage.seconds:8.0f} {counts[0]:7} {counts[1]:7} {counts[2]:8}")
    rows = [row for stage in stages for row in stage.tests.values()]
    say("\nslowest, seconds")
    for row in sorted(rows, key=lambda row: -row["seconds"])[:15]:
        say(f"{row['seconds']:8.1f}  {row['test']}")
    _tell_skipped(rows)
    (OUT / "flaky.txt").write_text("".join(f"{test}\t{why}\n" for test, why in flaky.items()))
    for test, why in flaky.items():
        say(f"flaky: {test} ({why})")
    failed = [row for row in rows if row["outcome"] == "failed"]
    for row in failed:
        say(f"FAILED {row['test']}: {_reason(row['why'])}")
    broken = [f"{stage.name}: {why}" for stage in stages for why in stage.broken]
    for line in broken:
        say(f"ERROR {line}")
    totals = Counter(row["outcome"] for row in rows)
    say(f"\n{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped, {len(flaky)} flaky")
    return 1 if failed or broken else 0


def _tell_skipped(rows: Sequence[dict[str, Any]]) -> None:
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == "skipped":
            reasons[row["why"]].append(row["test"])
    if not reasons:
        return
    order = sorted(reasons, key=lambda reason: -len(reasons[reason]))
    (OUT / "skipped.txt").write_text("".join(f"{reason}\n\t" + "\n\t".join(reasons[reason]) + "\n" for reason in order))
    say("\nskipped")
    for reason in order[:9]:
        say(f"{len(reasons[reason]):8}  {reason[:200]}")
    if rest := sum(len(reasons[reason]) for reason in order[9:]):
        say(f"{rest:8}  for {len(order) - 9} other reasons: {(OUT / 'skipped.txt').relative_to(ROOT)}")


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that compute, at normal priority."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def steady(rounds: int, words: Sequence[str], workers: int) -> int:
    """Run the tests of processes so many times, every other time beside two busy loops, and tell each failure."""
    failures: defaultdict[str, list[str]] = defaultdict(list)
    broken = []
    for number in range(1, rounds + 1):
        loops = 2 * (number % 2 == 0)
        say(f"\nround {number} of {rounds}, beside {loops} busy loops")
        with busy_loops(loops):
            stage = pytest(f"steady-{number}", words, workers)
        for test in stage.with_outcome("failed"):
            failures[test].append(f"round {number}: {_reason(stage.tests[test]['why'])}")
        broken += [f"round {number}: {why}" for why in stage.broken]
        failed = len(stage.with_outcome("failed"))
        say(f"round {number}: {len(stage.tests)} tests, {failed} failed, {stage.seconds:.0f} s")
    for test, whys in sorted(failures.items()):
        say(f"\n{test}: {len(whys)} of {rounds}")
        for why in whys:
            say(f"    {why}")
    for line in broken:
        say(f"ERROR {line}")
    say(f"\n{rounds} rounds, {sum(map(len, failures.values()))} failures of {len(failures)} tests")
    return 1 if failures or broken else 0


def main() -> int:
    """Run what the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run the tests in stages.")
    parser.add_argument("--stage", action="append", choices=("rust", *STAGES), help="this stage (may be repeated)")
    parser.add_argument("--workers", type=int, metavar="N", help=f"tests of pools and hosts at a time ({_WORKERS})")
    parser.add_argument("--steady", type=int, metavar="N", help="the tests of processes N times")
    parser.add_argument("--note-longest", action="store_true", help="write down which tests take longest")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="these alone, by pytest's names")
    options = parser.parse_args()
    if options.note_longest and (options.stage or options.steady or options.tests):
        parser.error("--note-longest wants a run of all tests")
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    if options.steady:
        return steady(options.steady, options.tests or _STEADY, options.workers or _WORKERS)
    if options.tests:
        chosen = [pytest("chosen", options.tests, options.workers or 0)]
        return tell(chosen, again(chosen) if options.workers else {})
    stages = []
    for name in options.stage or ("rust", *STAGES):
        if name == "rust":
            stages.append(rust())
        else:
            stages.append(
                pytest(name, STAGES[name], _QUICK_WORKERS if name == "quick" else options.workers or _WORKERS)
            )
        if stages[-1].broken:
            break
    if options.note_longest:
        note_longest(stages)
    return tell(stages, again(stages))


if __name__ == "__main__":
    sys.exit(main())

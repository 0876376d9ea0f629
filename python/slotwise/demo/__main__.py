"""`python -m slotwise.demo`: the demonstration, told step by step. Exit status 0 when every result is right.

With `--picture FILE` a shorter telling of the same run is written as an SVG file, besides.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from slotwise.demo import work
from slotwise.demo.pool import DemoPool

#: Priority factors of the two users: alice is entitled to three times bob's share.
FACTORS = {"alice": 1000, "bob": 3000}
_DEADLINE_S = 100.0
#: How wide the terminal of a picture is.
_COLUMNS = 106
_COMPLETED = 4
_HELD = 5


def main(picture: Path | None = None) -> int:
    """Bring up the pool, do the work, show what happened, check the results, take the pool down.

    :param picture: the SVG file to write of a shorter telling.
    """
    if picture is None:
        return _run(Console(highlight=False), is_short=False)
    console = Console(highlight=False, record=True, width=_COLUMNS, file=io.StringIO())
    status = _run(console, is_short=True)
    drawn = console.export_svg(title="make demo")
    # Nothing is fetched from others when the picture is looked at: the reader's own font serves.
    picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), encoding="utf-8")
    return status


def _run(console: Console, *, is_short: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="slotwise-demo-") as directory:
        pool = DemoPool(Path(directory))
        started = time.monotonic()
        console.rule("[bold]A personal pool")
        console.print("$ slotwise up")
        try:
            console.print(pool.run("up").rstrip())
            console.print(f"[dim]answered after {time.monotonic() - started:.1f} s[/]\n")
            if not is_short:
                console.print(pool.run("status").rstrip(), markup=False, soft_wrap=True)
            return _demonstrate(console, pool, is_short=is_short)
        finally:
            console.rule("[bold]The end")
            console.print("$ slotwise down")
            console.print(pool.run("down", check=False).rstrip())
            console.print(f"[dim]{time.monotonic() - started:.0f} s in all[/]")


def _demonstrate(console: Console, pool: DemoPool, *, is_short: bool) -> int:
    submissions = work.write(pool.work)
    console.rule("[bold]Two users submit work")
    for user, factor in FACTORS.items():
        pool.add_user(user, factor)
        console.print(f"$ slotwise userprio -setfactor {user}@{pool.domain} {factor}")
    clusters: dict[str, str] = {}
    for item in submissions:
        (pool.work / item.name).write_text(item.text)
        said = pool.run("submit", "-terse", item.name, user=item.user).strip()
        clusters[item.name] = said.partition(".")[0]
        console.print(f"{item.user}$ slotwise submit {item.name}   [dim]{said}[/]")
    halfway = _watch(console, pool, clusters)
    _tell(console, pool, clusters, halfway, is_short=is_short)
    wrong = work.check(pool.work)
    console.rule("[bold]Results")
    for line in wrong[:10]:
        console.print(f"[red]wrong:[/] {line}")
    if not wrong:
        console.print(
            f"{2 * work.JOBS_PER_USER} result files add up to {work.PRIMES_BELOW_200000} primes below 200,000: "
            f"[green]right[/]; {work.SWEEP_FILES} sweep outputs: [green]right[/]"
        )
    return 1 if wrong else 0


def _watch(console: Console, pool: DemoPool, clusters: dict[str, str]) -> dict[str, int]:
    """Show progress until all that can run has run.

    Returns the jobs done by each user between the first ones of both and half of the work of one: by then slots have
    changed hands, and both still have jobs waiting.
    """
    columns = (TextColumn("{task.description:24}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    goals = {
        ("alice", "primes-alice.sub"): work.JOBS_PER_USER,
        ("bob", "primes-bob.sub"): work.JOBS_PER_USER,
        ("alice", "sweep.sub"): work.SWEEP_FILES,
    }
    both_run: dict[str, int] = {}
    halfway: dict[str, int] = {}
    deadline = time.monotonic() + _DEADLINE_S
    with Progress(*columns, console=console) as progress:
        bars: dict[str, TaskID] = {
            name: progress.add_task(f"{user}: {name.removesuffix('.sub')}", total=goal)
            for (user, name), goal in goals.items()
        }
        while True:
            left = _left(pool)
            done = {name: goal - left.get(clusters[name], 0) for (_, name), goal in goals.items()}
            for name, bar in bars.items():
                progress.update(bar, completed=done[name])
            primes = {"alice": done["primes-alice.sub"], "bob": done["primes-bob.sub"]}
            if not both_run and min(primes.values()) >= 1:
                both_run = primes
            if both_run and not halfway and max(primes.values()) >= work.JOBS_PER_USER // 2:
                halfway = {user: done - both_run[user] for user, done in primes.items()}
            if all(done[name] >= goal for (_, name), goal in goals.items()):
                return halfway
            if time.monotonic() > deadline:
                raise TimeoutError("the work is not done in time; see the log directory of the pool")
            time.sleep(0.25)


def _left(pool: DemoPool) -> dict[str, int]:
    """Jobs that are not completed, by cluster."""
    left: dict[str, int] = {}
    for ad in pool.ads("q", "-allusers", "-attributes", "ClusterId,ProcId,JobStatus"):
        if ad["JobStatus"] != _COMPLETED:
            cluster = str(ad["ClusterId"])
            left[cluster] = left.get(cluster, 0) + 1
    return left


def _tell(
    console: Console, pool: DemoPool, clusters: dict[str, str], halfway: dict[str, int], *, is_short: bool
) -> None:
    """What is left in the queue, who got what, why one job waits and why another is on hold."""
    never, broken = clusters["never.sub"], clusters["broken.sub"]
    told = (
        ("What is left in the queue", ("q", "-allusers", "-nobatch")),
        ("Who got what", ("userprio", "-allusers")),
        ("Why one job does not run", ("analyze", f"{never}.0")),
        ("Why another is on hold", ("q", "-hold", "-allusers")),
    )
    for title, words in told[1:3] if is_short else told:
        console.rule(f"[bold]{title}")
        console.print(f"$ slotwise {' '.join(words)}")
        console.print(pool.run(*words, check=False).strip("\n"), markup=False, soft_wrap=True)
        if words[1] == "-hold":
            first = (pool.work / work.BROKEN).read_text().splitlines()[0]
            console.print(f"[dim]what is not there is the interpreter that its first line names: {first}[/]")
        if words[0] == "userprio" and halfway:
            shares = ", ".join(f"{user} {count}" for user, count in halfway.items())
            factors = " : ".join(str(factor) for factor in FACTORS.values())
            console.print(
                f"[dim]from the first jobs of both until one had half of its counting done: {shares} jobs completed "
                f"(priority factors {factors}, so alice is entitled to three of four slots)[/]"
            )
    held = [ad for ad in pool.ads("q", "-allusers") if str(ad["ClusterId"]) == broken]
    if not held or held[0]["JobStatus"] != _HELD:
        raise RuntimeError("the job without an interpreter should be on hold")


if __name__ == "__main__":
    named = sys.argv[1:]
    if named and (len(named) != 2 or named[0] != "--picture"):
        sys.exit("usage: python -m slotwise.demo [--picture FILE.svg]")
    sys.exit(main(Path(named[1]) if named else None))

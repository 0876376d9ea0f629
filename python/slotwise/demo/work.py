"""The work of the demonstration: files and submit descriptions, and the answers that must come out.

Everything the jobs need is written here and transferred; they use only a POSIX shell and awk.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

#: Numbers that each counting job looks at.
RANGE = 1000
#: Counting jobs of each of the two users; together they cover 1 to 200,000.
JOBS_PER_USER = 100
#: Primes below 200,000: the answer to which all counting jobs together must come.
PRIMES_BELOW_200000 = 17_984
#: Input files of the sweep and the lines in each: file k has k x 100 lines.
SWEEP_FILES = 12

_COUNT_PRIMES = """#!/bin/sh
# Counts the primes in [$1 * RANGE, ($1 + 1) * RANGE) by trial division and leaves the number in a file.
awk -v first="$(($1 * RANGE))" -v size=RANGE 'BEGIN {
    count = 0
    for (n = first; n < first + size; n++) {
        if (n < 2) continue
        prime = 1
        for (d = 2; d * d <= n; d++) if (n % d == 0) { prime = 0; break }
        count += prime
    }
    # The same sum again, several times, so that a job is long enough to watch.
    for (again = 0; again < 600000; again++) burn += again % 7
    print count
}' > "primes.$1"
"""

_COUNT_LINES = """#!/bin/sh
awk 'END { print FILENAME, NR }' "$1"
"""

#: The program that cannot be started.
BROKEN = "broken.sh"
_NO_INTERPRETER = """#!/no/such/interpreter
nothing here can run
"""


class Submission(Struct, frozen=True):
    """A submit description: who submits it, its file name and text."""

    user: str
    name: str
    text: str


def write(directory: Path) -> list[Submission]:
    """Write programs and inputs below ``directory``; returns the submissions, in order."""
    (directory / "results").mkdir()
    (directory / "data").mkdir()
    (directory / "logs").mkdir()
    _program(directory / "count_primes.sh", _COUNT_PRIMES.replace("RANGE", str(RANGE)))
    _program(directory / "count_lines.sh", _COUNT_LINES)
    _program(directory / BROKEN, _NO_INTERPRETER)
    for number in range(1, SWEEP_FILES + 1):
        lines = (f"{number} {line}\n" for line in range(number * 100))
        (directory / "data" / f"sample{number:02}.txt").write_text("".join(lines))
    for path in (directory, directory / "results", directory / "logs"):
        path.chmod(0o777)  # a pool that root runs writes here with the rights of each user
    return [
        Submission("alice", "primes-alice.sub", _primes("alice", 0)),
        Submission("bob", "primes-bob.sub", _primes("bob", JOBS_PER_USER)),
        Submission("alice", "sweep.sub", _SWEEP),
        Submission("bob", "never.sub", _NEVER),
        Submission("bob", "broken.sub", _BROKEN),
    ]


def check(directory: Path) -> list[str]:
    """What is wrong with the results; empty when every file is there and the numbers are right."""
    wrong: list[str] = []
    total = 0
    for number in range(2 * JOBS_PER_USER):
        try:
            total += int((directory / "results" / f"primes.{number}").read_text())
        except (OSError, ValueError) as error:
            wrong.append(f"job {number}: {error}")
    if not wrong and total != PRIMES_BELOW_200000:
        wrong.append(f"counted {total} primes, not {PRIMES_BELOW_200000}")
    for number in range(1, SWEEP_FILES + 1):
        name = f"sample{number:02}.txt"
        expected = f"{name} {number * 100}"
        try:
            found = (directory / "results" / f"{name}.out").read_text().strip()
        except OSError as error:
            found = str(error)
        if found != expected:
            wrong.append(f"sweep over {name}: {found!r} instead of {expected!r}")
    return wrong


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _primes(user: str, first: int) -> str:
    return f"""# {JOBS_PER_USER} numerical jobs of {user}; each writes one result file
executable = count_primes.sh
arguments = $INT(number)
number = $(Process) + {first}
transfer_output_files = primes.$INT(number)
transfer_output_remaps = "primes.$INT(number) = results/primes.$INT(number)"
should_transfer_files = YES
request_cpus = 1
request_memory = 32M
request_disk = 1M
log = logs/primes-{user}.log
batch_name = primes
queue {JOBS_PER_USER}
"""


_SWEEP = """# one job for each input file
executable = count_lines.sh
arguments = $Fnx(sample)
transfer_input_files = $(sample)
output = results/$Fnx(sample).out
should_transfer_files = YES
request_memory = 32M
request_disk = 1M
log = logs/sweep.log
batch_name = sweep
queue sample matching files (data/*.txt)
"""

_NEVER = """# no machine of this pool can run this one
executable = count_lines.sh
arguments = nothing
should_transfer_files = YES
requirements = TARGET.OpSys == "WINDOWS" && TARGET.Memory >= 16
request_memory = 64M
request_disk = 1M
log = logs/never.log
batch_name = never
queue
"""

_BROKEN = """# starts, and fails to: its interpreter does not exist
executable = broken.sh
should_transfer_files = YES
request_memory = 32M
request_disk = 1M
log = logs/broken.log
batch_name = broken
queue
"""

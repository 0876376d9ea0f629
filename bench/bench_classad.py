"""The ClassAd language from Python beside ``classad2``: evaluation, symmetric match, parsing of long streams.

    python bench/bench_classad.py [--ads 5000] [--rounds 7]

Both sides run in this process, turn by turn, on the same texts; each result is checked before it is timed. Targets: ten
times the rate of ``classad2`` in all three, and 100 MB/s class parsing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import Report
from slotwise.classad import ClassAd, parse_ads

os.environ["TZ"] = "UTC"
import classad2
import htcondor2  # noqa: F401  (selects the normal mode and registers the functions)

REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) && '
    "(TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer) && "
    '(Mips > MinMips) && (State =!= "Owner") && (LoadAvg < 1.5) && (OpSysAndVer =?= "AlmaLinux9" || TARGET.HasDocker)'
)


def machine(number: int, attributes: int = 155) -> dict[str, str]:
    """A machine ad as ``condor_status -long`` shows one: names and values as text."""
    ad = {
        "Name": f'"slot1@node{number}.example.org"',
        "Machine": f'"node{number}.example.org"',
        "Arch": '"X86_64"',
        "OpSys": '"LINUX"',
        "OpSysAndVer": '"AlmaLinux9"',
        "Memory": str(65536 + number % 7 * 1024),
        "Cpus": "32",
        "Disk": str(123456789 + number),
        "State": '"Unclaimed"',
        "Activity": '"Idle"',
        "LoadAvg": f"0.{number % 90 + 10}",
        "Mips": "40000",
        "KFlops": str(4000000 + number),
        "HasFileTransfer": "true",
        "HasDocker": "true",
        "MyCurrentTime": str(1790000000 + number),
        "FileSystemDomain": '"example.org"',
        "Start": 'TARGET.RequestMemory < 1000000 && TARGET.Owner != "mallory"',
        "Requirements": "START && (TARGET.RequestCpus <= Cpus) && (TARGET.RequestMemory <= Memory)",
    }
    for k in range(attributes - len(ad)):
        ad[f"Attribute{k}Of{k * 7 % 13}"] = [
            str(k * 1000),
            f'"value {k} of the machine"',
            f"{k / 7 + 0.5:.3f}",
            "true",
            f"Attribute{(k + 1) % 9}Of3 + {k}",
        ][k % 5]
    return ad


def job(attributes: int = 150) -> dict[str, str]:
    """A job ad with a Requirements of ten clauses."""
    ad = {
        "RequestCpus": "2",
        "RequestMemory": "2048",
        "RequestDisk": "1000000",
        "Owner": '"alice"',
        "User": '"alice@example.org"',
        "JobUniverse": "5",
        "MinMips": "1000",
        "Rank": "TARGET.Memory",
        "Requirements": REQUIREMENTS,
    }
    for k in range(attributes - len(ad)):
        ad[f"JobAttribute{k}"] = str(k)
    return ad


def new_syntax(ad: dict[str, str]) -> str:
    """The ad as ``[ name = value; ... ]``."""
    return "[ " + "; ".join(f"{name} = {value}" for name, value in ad.items()) + " ]"


def old_syntax(ad: dict[str, str]) -> str:
    """The ad one attribute a line."""
    return "".join(f"{name} = {value}\n" for name, value in ad.items()) + "\n"


def per_call_us(function: Callable[[], object], calls: int) -> float:
    """Microseconds of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


def pair(report: Report, name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> None:
    """Time both turn by turn and report them with their ratio."""
    assert bool(ours()) is bool(theirs()) is True, name
    mine, other = [], []
    for _ in range(rounds):
        other.append(per_call_us(theirs, 3000))
        mine.append(per_call_us(ours, 30000))
    figure = report.add(f"{name}, slotwise", "us", mine)
    reference = report.add(f"{name}, classad2", "us", other)
    report.add(f"{name}, times the rate", "x", reference.median / figure.median, target=">= 10")


def parsing(report: Report, ads: int, rounds: int) -> None:
    """Time the parsing of a long stream from a text and from a file."""
    text = "".join(old_syntax(machine(i)) for i in range(ads))
    part = "".join(old_syntax(machine(i)) for i in range(max(1, ads // 20)))
    first, last = next(iter(parse_ads(text))), list(parse_ads(text))[-1]
    reference = next(iter(classad2.parseAds(part, classad2.ParserType.Old)))
    assert repr(first) == repr(reference)
    assert last["Machine"] == f"node{ads - 1}.example.org"
    mine, other, piped = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ads"
        path.write_text(text)
        for _ in range(rounds):
            start = time.perf_counter()
            assert sum(1 for _ in parse_ads(text)) == ads
            mine.append(len(text) / (time.perf_counter() - start) / 1e6)
            start = time.perf_counter()
            with path.open("rb") as file:
                assert sum(1 for _ in parse_ads(file)) == ads
            piped.append(len(text) / (time.perf_counter() - start) / 1e6)
            start = time.perf_counter()
            assert sum(1 for _ in classad2.parseAds(part, classad2.ParserType.Old)) == max(1, ads // 20)
            other.append(len(part) / (time.perf_counter() - start) / 1e6)
    figure = report.add(f"parse {ads} ads of 155 attributes, slotwise", "MB/s", mine, target=">= 100")
    report.add("the same from a file, read in chunks", "MB/s", piped, target=">= 100")
    reference_rate = report.add("parse a twentieth of them, classad2", "MB/s", other)
    report.add("parsing, times the rate", "x", figure.median / reference_rate.median, target=">= 10")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ads", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "out")
    options = parser.parse_args()
    report = Report("classad")
    texts = new_syntax(job()), new_syntax(machine(1))
    my, target = (ClassAd(text) for text in texts)
    my2, target2 = (classad2.ClassAd(text) for text in texts)
    expr, expr2 = my.lookup("Requirements"), my2.lookup("Requirements")
    pair(
        report,
        "evaluate ten clauses",
        lambda: expr.eval(my, target),
        lambda: expr2.eval(my2, target2),
        options.rounds,
    )
    pair(
        report,
        "symmetric match",
        lambda: my.symmetric_match(target),
        lambda: my2.symmetricMatch(target2),
        options.rounds,
    )
    parsing(report, options.ads, options.rounds)
    report.save(options.out)


if __name__ == "__main__":
    main()

"""Tables of ads: reading text, taking updates, memory, queries, listings, frames, templates.

``python bench/bench_table.py [SLOTS]`` (100,000). HTCondor's figures are those of HTCondor 25 on a machine of the
same kind.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import Report, timed
from slotwise.classad import ClassAd
from slotwise.table import AdTable, Form, PackBuilder, unpack_ads, unpack_ops
from synthetic import slots_file

OUT = Path(__file__).resolve().parent / "out"


def read_text(report: Report, path: Path, slots: int) -> AdTable:
    """Text into a table, in pieces as they come from a pipe."""
    values = []
    for _ in range(3):
        table = AdTable()
        loader = table.text_loader()
        spent = 0.0
        with path.open("rb") as text:
            while piece := text.read(1 << 20):
                start = time.perf_counter()
                loader.feed(piece)
                spent += time.perf_counter() - start
        assert loader.finish().ads == len(table) == slots
        values.append(spent / slots * 1e6)
    report.add("read status -long text, an ad", "us", values, target="< 10", reference="120")
    report.add("memory of the table, an ad", "bytes", table.memory_bytes / slots, target="< 2,000", reference="18,500")
    return table


def take_updates(report: Report, table: AdTable, slots: int) -> None:
    """Whole ads and small deltas, as the collector gets them."""
    whole = [bytes(piece) for piece in table.query_chunks(form="keyed", chunk_rows=1000)]
    copy = AdTable()
    start = time.perf_counter()
    for pack in whole:
        copy.apply(pack, 1.0)
    report.add("apply whole ads, new, an ad", "us", (time.perf_counter() - start) / slots * 1e6)
    assert len(copy) == slots

    def again() -> None:
        for pack in whole:
            copy.apply(pack, 2.0)

    report.add("apply whole ads, known, an ad", "us", [t / slots * 1e6 for t in timed(again, repeat=3)], target="< 15")
    report.add("size of a packed whole ad", "bytes", sum(map(len, whole)) / slots)
    keys = table.keys()
    deltas = []
    for first in range(0, slots, 100):
        builder = PackBuilder()
        for at, key in enumerate(keys[first : first + 100]):
            change = {
                "LastHeardFrom": first + at,
                "LoadAvg": at / 64,
                "KeyboardIdle": first * 7 + at,
                "MyCurrentTime": at,
            }
            builder.update(key, change)
        deltas.append(builder.finish())

    def update() -> None:
        for pack in deltas:
            copy.apply(pack, 3.0, stamp="LastHeardFrom")

    report.add("apply deltas of 4 attributes, an ad", "us", [t / slots * 1e6 for t in timed(update)], target="< 5")
    seen = copy.version
    few = deltas[: len(deltas) // 100]
    for pack in few:
        copy.apply(pack.replace(b"LoadAvg", b"LoadAv2"), 4.0)
    assert len(unpack_ops(copy.changes_since(seen))) == len(few) * 100
    report.add("changes of 1 % of the ads as a pack", "ms", [t * 1e3 for t in timed(lambda: copy.changes_since(seen))])


def ask(report: Report, table: AdTable, slots: int) -> None:
    """Questions over all ads."""
    constraint = 'State == "Unclaimed" && Memory > 3000 && OpSysMajorVer >= 9 && LoadAvg < 0.1'
    projection = ["Name", "Cpus", "Memory", "State", "Activity", "LoadAvg"]
    all_ads: list[Mapping[str, Any]] = [*unpack_ads(table.query(projection=[*projection, "OpSysMajorVer"]))]
    expected = sum(
        bool(ad["State"] == "Unclaimed" and ad["Memory"] > 3000 and ad["OpSysMajorVer"] >= 9 and ad["LoadAvg"] < 0.1)
        for ad in all_ads
    )
    assert table.count(constraint) == expected > 0
    values = [t * 1e3 for t in timed(lambda: table.query(constraint, projection))]
    report.add(f"constraint and projection over {slots:,} ads", "ms", values, target="< 100", reference="400")
    job = ClassAd({"RequestCpus": 1, "RequestMemory": 2048, "RequestDisk": 1024, "JobUniverse": 5, "Owner": "ann"})
    values = [t * 1e3 for t in timed(lambda: table.count("MY.Requirements", target=job))]
    report.add("count slots whose Requirements accept a job", "ms", values)
    values = [t * 1e3 for t in timed(lambda: table.count_by(["OpSysAndVer", "State"]))]
    report.add("count by two attributes", "ms", values)
    values = [t * 1e3 for t in timed(lambda: table.values(["Name", "Memory", "State"]))]
    report.add("three attributes as Python lists", "ms", values)
    forms: list[tuple[Form, str]] = [("long", "30"), ("json", "")]
    for form, reference in forms:

        def listing(form: Form = form) -> int:
            return sum(len(piece) for piece in table.query_chunks(form=form))

        assert listing() > slots * 1000
        report.add(f"{form} form of all", "s", timed(listing, repeat=3), target="< 5", reference=reference)
    report.add("all as an Arrow stream", "ms", [t * 1e3 for t in timed(lambda: table.arrow(evaluate=False), repeat=3)])


def templates(report: Report, jobs: int = 100_000) -> None:
    """The jobs of one large cluster."""
    ad = ClassAd({f"Attribute{at}": f"value {at}" for at in range(80)})
    keys = [f"7.{proc}" for proc in range(jobs)]

    def insert() -> AdTable:
        table = AdTable()
        table.insert_from_template(ad, keys, columns={"ProcId": range(jobs), "GlobalJobId": keys})
        return table

    assert insert().value("7.99", "ProcId") == 99
    report.add(f"{jobs:,} jobs from a template", "s", timed(insert), target="< 0.3")


def main() -> int:
    """Run everything."""
    slots = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    report = Report("Tables of ads")
    table = read_text(report, slots_file(slots), slots)
    take_updates(report, table, slots)
    ask(report, table, slots)
    templates(report)
    report.add("peak memory", "MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())

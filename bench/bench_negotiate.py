"""The negotiation cycle on synthetic pools: first cycle, the same again, and after one slot in a hundred reported.

``python bench/bench_negotiate.py [--quick] [--only TEXT]``. Every outcome is checked before its time is reported. As
baselines the same run times the plain evaluator, job by job and slot by slot, and HTCondor's evaluator where its
Python module is installed. Writes figures and ``negotiate.png`` (cost against size) to ``bench/out``.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import Report, short
from plot import Chart, write
from pool_generator import NOW, Scenario, accounting_records, churn, demand_tables, scenarios, slot_table
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Engine, Knobs
from slotwise.table import AdTable

OUT = Path(__file__).resolve().parent / "out"
REPEAT = 5


def check(outcome: CycleOutcome, scenario: Scenario, slots: AdTable, requests: AdTable) -> None:
    """The outcome is one that the rules allow: nothing given twice, everybody served as far as slots go.

    :raises AssertionError: naming the rule.
    """
    columns = outcome.match_columns()
    taken = columns.slot
    capacity = scenario.slots * (scenario.cores if scenario.partitionable else 1)
    if not scenario.partitionable:
        assert len(set(taken)) == len(taken), "a slot was given twice"
    assert len(taken) <= min(capacity, scenario.demand), "more matches than slots or jobs"
    rejected = sum(row.count for row in outcome.rejections())
    held = sum(row.held_back[1] for row in outcome.submitters() if row.held_back)
    assert len(taken) + rejected + held >= min(scenario.demand, capacity) * 0.9, "jobs were forgotten"
    if scenario.claimed and "PREEMPTION_REQUIREMENTS" in scenario.knobs:
        assert any(columns.preempts), "nobody was preempted"
    step = max(1, len(outcome) // 200)
    for match in outcome.matches()[::step]:
        job, slot = requests.get(match.request), slots.get(match.slot)
        assert job is not None and slot is not None
        if not scenario.partitionable:
            assert job.symmetric_match(slot, now=NOW), f"{match.slot} does not match {match.request}"


def one(scenario: Scenario) -> dict[str, Any]:
    """All figures of one scenario, in a process of its own (for the peak memory)."""
    slots = slot_table(scenario)
    requests, submitters = demand_tables(scenario)
    gc.collect()
    knobs = Knobs({"NEGOTIATOR_MAX_TIME_PER_SUBMITTER": "1000000"} | scenario.knobs)
    accounting = Accounting(records=accounting_records(scenario))
    first, again, changed, phases = [], [], [], []
    for round_ in range(REPEAT if scenario.quick else 2):
        engine = Engine()
        start = time.perf_counter()
        outcome = engine.run(slots, requests, submitters, knobs, accounting, NOW)
        first.append(time.perf_counter() - start)
        phases.append(outcome.timings())
        start = time.perf_counter()
        repeated = engine.run(slots, requests, submitters, knobs, accounting, NOW)
        again.append(time.perf_counter() - start)
        churn(slots, scenario, round_)
        start = time.perf_counter()
        engine.run(slots, requests, submitters, knobs, accounting, NOW)
        changed.append(time.perf_counter() - start)
    check(repeated, scenario, slots, requests)
    return {
        "first": first,
        "again": again,
        "changed": changed,
        "matches": len(outcome),
        "classes": outcome.statistics().slot_classes,
        "prepare": statistics.median(p["prepare_s"] for p in phases),
        "bytes_per_slot": slots.memory_bytes / scenario.slots,
        "peak_mib": _peak_mib(),
        "plain_pair_s": _plain_pair_s(slots, requests),
        "reference_pair_s": _reference_pair_s(slots, requests),
    }


def _peak_mib() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _plain_pair_s(slots: AdTable, requests: AdTable) -> float:
    """Seconds a pair for the plain evaluator, ad by ad."""
    job = requests.get(requests.keys()[0])
    ads = [ad for key in slots.keys()[:2000] if (ad := slots.get(key)) is not None]
    assert job is not None
    start = time.perf_counter()
    for ad in ads:
        job.symmetric_match(ad, now=NOW)
    return (time.perf_counter() - start) / len(ads)


def _reference_pair_s(slots: AdTable, requests: AdTable) -> float | None:
    """Seconds a pair for HTCondor's evaluator, where it is installed."""
    try:
        import classad2
    except ImportError:
        return None
    job = classad2.ClassAd(str(requests.get(requests.keys()[0])))
    ads = [classad2.ClassAd(str(slots.get(key))) for key in slots.keys()[:2000]]
    start = time.perf_counter()
    for ad in ads:
        job.symmetricMatch(ad)
    return (time.perf_counter() - start) / len(ads)


def main(args: list[str]) -> int:
    """Run the scenarios, each in its own process, and write report and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the large scenarios")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args(args)
    known = {scenario.name: scenario for scenario in scenarios()}
    if asked.one:
        print(json.dumps(one(known[asked.one])))
        return 0
    chosen = [s for s in known.values() if asked.only in s.name and (s.quick or not asked.quick)]
    if not chosen:
        print(f"no scenario has {asked.only!r} in its name; there are: {'; '.join(known)}", file=sys.stderr)
        return 2
    report = Report("Negotiation cycle")
    by_slots = Chart("Cycle time against slots, 100 autoclusters", "slots", "seconds")
    by_autoclusters = Chart("Cycle time against autoclusters, 100 k slots", "autoclusters", "seconds")
    for scenario in chosen:
        command = [sys.executable, __file__, "--one", scenario.name]
        made = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
        if made.returncode != 0:
            print(made.stderr, file=sys.stderr)
            return 1
        _tell(report, scenario, json.loads(made.stdout.splitlines()[-1]), by_slots, by_autoclusters)
    for chart in (by_slots, by_autoclusters):
        _tell_growth(report, chart)
    report.save(OUT)
    write(OUT / "negotiate.png", [by_slots, by_autoclusters])
    print(f"plot: {OUT / 'negotiate.png'}")
    return 0


def _tell_growth(report: Report, chart: Chart) -> None:
    """How cost grows with size: 1 is linearly, less is slower."""
    for curve in ("first cycle", "after 1% changed"):
        grown = chart.growth(curve)
        if grown is not None:
            smallest, largest, factor = grown
            of = chart.x_label
            name = f"growth, {curve}: cost of one of {largest:,.0f} {of}, in those of {smallest:,.0f}"
            report.add(name, "times", factor, target="1 or less")


def _tell(report: Report, scenario: Scenario, figures: dict[str, Any], by_slots: Chart, by_autoclusters: Chart) -> None:
    target = f"{scenario.target_s:g} s" if scenario.target_s else ""
    tenth = f"{scenario.target_s / 10:g} s" if scenario.target_s else ""
    note = f"{figures['matches']} matches, {figures['classes']} classes of slots, {figures['peak_mib']:.0f} MiB"
    name = scenario.name
    report.add(f"{name}: first cycle", "s", figures["first"], target=target, reference=scenario.reference, note=note)
    report.add(f"{name}: the same again", "s", figures["again"])
    share = f"{scenario.churn:.0%}"
    report.add(f"{name}: {share} of the ads changed", "s", figures["changed"], target=tenth)
    pairs = scenario.slots * scenario.submitters * scenario.autoclusters
    plain = figures["plain_pair_s"] * pairs
    text = f"{figures['plain_pair_s'] * 1e6:.1f} us a pair"
    report.add(f"{name}: baseline, plain evaluator pair by pair (worked out)", "s", plain, note=text)
    if figures["reference_pair_s"]:
        cost = figures["reference_pair_s"]
        text = f"{cost * 1e6:.1f} us a pair, measured here on 2,000"
        report.add(f"{name}: baseline, HTCondor's evaluator (worked out)", "s", cost * pairs, note=text)
    plain_pool = not (scenario.partitionable or scenario.claimed or scenario.distinct_requests)
    autoclusters = scenario.submitters * scenario.autoclusters
    places = [(by_slots, scenario.slots)] if plain_pool and autoclusters == 100 else []
    places += [(by_autoclusters, autoclusters)] if plain_pool and scenario.slots == 100_000 else []
    for chart, size in places:
        lines = {
            "first cycle": statistics.median(figures["first"]),
            "after 1% changed": statistics.median(figures["changed"]),
            "plain evaluator (worked out)": plain,
            "reference (worked out)": (figures["reference_pair_s"] or 0) * pairs,
        }
        for label, seconds in lines.items():
            if seconds > 0:
                chart.line(label).points.append((size, seconds))
    print(f"{'':4}{short(figures['bytes_per_slot'])} bytes a slot ad in the table", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Metrics of several daemons as one page, and what becomes of labels that users choose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from slotwise.classad import ClassAd
from slotwise.clock import ManualClock
from slotwise.matchmaking.reasons import reason_label
from slotwise.metrics import OTHER, FromAttribute, families_of, known
from slotwise.model.reason_codes import HOLD_NAMES
from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.publish.metrics import ScheddMetrics, waits
from slotwise.table import AdTable
from slotwise.web.exposition import Scrape, merged, rendered
from slotwise.wire.gen import daemon_pb2


def family(name: str, kind: str, *samples: tuple[str, dict[str, str], float]) -> daemon_pb2.MetricFamily:
    found = daemon_pb2.MetricFamily(name=name, type=kind, help=f"About {name}.")
    for sample, labels, value in samples:
        found.samples.add(name=sample, labels=labels, value=value)
    return found


def page(*scrapes: Scrape) -> dict[str, Metric]:
    text, media_type = rendered(merged(scrapes), "application/openmetrics-text")
    assert media_type.startswith("application/openmetrics-text")
    families: Iterable[Metric] = text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
    return {found.name: found for found in families}


def test_families_of_several_daemons_become_one_with_their_names() -> None:
    calls = ("slotwise_rpc_streams_total", {"method": "Query"})
    found = page(
        Scrape("schedd", (family("slotwise_rpc_streams", "counter", (*calls, 3.0)),)),
        Scrape("collector", (family("slotwise_rpc_streams", "counter", (*calls, 4.0)),)),
        Scrape("startd", None),
    )
    streams = found["slotwise_rpc_streams"]
    assert {(row.labels["daemon"], row.labels["method"], row.value) for row in streams.samples} == {
        ("schedd", "Query", 3.0),
        ("collector", "Query", 4.0),
    }
    up = {row.labels["daemon"]: row.value for row in found["slotwise_scrape_up"].samples}
    assert up == {"schedd": 1.0, "collector": 1.0, "startd": 0.0}


def test_the_older_text_format_is_served_to_those_who_ask_for_nothing_else() -> None:
    text, media_type = rendered(merged([]), "")
    assert media_type.startswith("text/plain")
    assert b"# TYPE slotwise_scrape_up gauge" in text


def test_attributes_become_samples_and_what_is_no_number_is_left_out() -> None:
    rows = (
        FromAttribute("slotwise_jobs", "TotalIdleJobs", {"state": "idle"}),
        FromAttribute("slotwise_jobs", "TotalHeldJobs", {"state": "held"}),
        FromAttribute("slotwise_starts", "JobsStarted", counts=True),
        FromAttribute("slotwise_starts", "Broken", counts=True),
    )
    attributes = {"TotalIdleJobs": 5, "TotalHeldJobs": "many", "JobsStarted": 7, "Broken": True}
    found = list(families_of(rows, attributes, {"slotwise_jobs": "Jobs.", "slotwise_starts": "Starts."}))
    assert [(one.name, one.type) for one in found] == [("slotwise_jobs", "gauge"), ("slotwise_starts", "counter")]
    assert [(row.name, row.labels, row.value) for one in found for row in one.samples] == [
        ("slotwise_jobs", {"state": "idle"}, 5.0),
        ("slotwise_starts_total", {}, 7.0),
    ]


def test_values_that_hosts_choose_are_no_labels() -> None:
    assert known("Claimed", {"Claimed", "Owner"}) == "Claimed"
    assert known("x" * 1000, {"Claimed", "Owner"}) == known(None, {"Claimed"}) == OTHER


def test_reasons_of_rejections_have_a_bounded_set_of_labels() -> None:
    assert reason_label("concurrency limit: alices_licence") == "concurrency_limit"
    assert reason_label("no match found") == "no_match"
    assert reason_label("something new: 17") == OTHER


def test_clients_do_not_load_what_daemons_count_with() -> None:
    code = "import slotwise.client.schedd, slotwise.client.collector, sys; print('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_counters_have_no_samples_of_when_they_began() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import slotwise.metrics as m; print([s.name for f in m.collect(()) for s in f.samples])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "slotwise_event_loop_lag_seconds_bucket" in done.stdout and "_created" not in done.stdout


def cluster(qdate: int, idle: int, universe: int = 5, held: int = 0) -> Cluster:
    found = Cluster(1, "a", "a@d", "a@d", qdate, {}, universe=universe)
    found.counts[1], found.counts[5] = idle, held
    return found


def test_waiting_times_of_idle_jobs_are_a_histogram_of_those_that_are_matched() -> None:
    clusters = [cluster(950, 3), cluster(400, 2), cluster(0, 0), cluster(0, 7, universe=12), cluster(2000, 1)]
    text, _ = rendered([waits(clusters, 1000.0)], "")
    lines = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
    name = "slotwise_idle_job_wait_seconds"
    assert lines[f'{name}_bucket{{le="60.0"}}'] == "4.0" and lines[f'{name}_bucket{{le="900.0"}}'] == "6.0"
    assert lines[f'{name}_bucket{{le="+Inf"}}'] == lines[f"{name}_gcount"] == "6.0"
    assert lines[f"{name}_gsum"] == str(3 * 50.0 + 2 * 600.0)


def test_held_jobs_are_counted_by_code_and_odd_codes_together() -> None:
    table = AdTable()
    for number, code in enumerate([34, 34, 1, 999, "x"]):
        table.upsert(f"1.{number}", ClassAd({"JobStatus": 5, "HoldReasonCode": code}))
    table.upsert("1.9", ClassAd({"JobStatus": 1, "HoldReasonCode": 34}))
    measured = ScheddMetrics(dict, dict, lambda: [cluster(0, 1, held=5)], table, ManualClock(1000.0), lambda: 7)
    families = {family.name: family for family in measured()}
    held = families["slotwise_held_jobs"]
    assert {sample.labels["reason"]: sample.value for sample in held.samples} == {
        HOLD_NAMES[34]: 2, "UserRequest": 1, OTHER: 2,
    }  # fmt: skip
    assert [sample.value for sample in families["slotwise_event_log_backlog"].samples] == [7]

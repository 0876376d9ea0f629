"""Metrics of several daemons as one page, and what becomes of labels that users choose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from slotwise.matchmaking.reasons import reason_label
from slotwise.metrics import OTHER, FromAttribute, families_of, known
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

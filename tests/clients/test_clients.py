"""Each client does its main job on a pool; what that is says its program in programs/."""

from __future__ import annotations

import pytest

from tests.clients.conftest import PROGRAM_S, RunClient

pytestmark = [pytest.mark.xdist_group("clients"), pytest.mark.timeout(PROGRAM_S + 100)]


def test_dask_jobqueue_scales_and_adapts(run_client: RunClient) -> None:
    run_client("dask_scale", "dask_jobqueue")


def test_parsl_runs_tasks_and_cancels(run_client: RunClient) -> None:
    run_client("parsl_tasks", "parsl")


def test_pycondor_submits(run_client: RunClient) -> None:
    run_client("pycondor_jobs", "pycondor")


def test_htmap_maps_a_function(run_client: RunClient) -> None:
    run_client("htmap_map", "htmap")


def test_law_submits_queries_and_cancels(run_client: RunClient) -> None:
    run_client("law_jobs", "law")


def test_snakemake_runs_a_workflow(run_client: RunClient) -> None:
    run_client("snakemake_rules", "snakemake_executor_plugin_htcondor", as_job=True)


def test_toil_runs_a_workflow(run_client: RunClient) -> None:
    run_client("toil_workflow", "toil", as_job=True)


def test_batchspawner_starts_and_stops_a_server(run_client: RunClient) -> None:
    run_client("batchspawner_server", "batchspawner")


def test_the_commands_of_nextflow_run_a_task(run_client: RunClient) -> None:
    run_client("nextflow_commands", "sys")


def test_an_exporter_reads_ads_for_prometheus(run_client: RunClient) -> None:
    run_client("prometheus_exporter", "prometheus_client")

"""HTCondor's condor_dagman as a job: what it would tell a schedd of HTCondor itself. Pure.

It keeps a connection to the queue, over which it names its batch and counts its nodes. Here it has none: the schedd
names the batch as it would, passes the name on, and counts what becomes of the jobs of its nodes (DAG_JobsCompleted,
DAG_NodesDone). What POST scripts make of a node is not seen. Slotwise's own runner tells all that itself; the schedd
does no more for it than name its batch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.execution.dagman import dag_files, runs_dags
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.values import Changes

_BATCH = "-batch-name"


def batch_name(submitted: ClassAd, cluster: int) -> str:
    """The name of a DAG's batch, as condor_dagman makes it: that of its first file, and the cluster; "" for any other
    job, and for one that has a name."""
    if submitted.get("JobUniverse") != Universe.SCHEDULER or not runs_dags(submitted.get("Cmd")):
        return ""
    if "JobBatchName" in submitted:
        return ""
    try:
        files = dag_files(submitted)
    except UsageError:
        return ""
    return f"{os.path.basename(files[0])}+{cluster}" if files else ""


def with_batch_name(arguments: Sequence[str], name: object) -> list[str]:
    """The arguments of condor_dagman, with the name of its batch, which its nodes' jobs get."""
    known = any(word.lower() == _BATCH for word in arguments)
    return [*arguments, *(() if known or not isinstance(name, str) or not name else ("-Batch-Name", name))]


def environment(submit: str, remove: str) -> dict[str, str]:
    """The environment by which condor_dagman submits and removes jobs with these commands ("": its own defaults).

    Without them it would speak to the schedd in HTCondor's protocol, whatever DAGMAN_USE_DIRECT_SUBMIT says. Its
    directory for logs is that of the job: LOG may be none, or the daemons' alone.
    """
    found = {"_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False", "_CONDOR_LOG": "."}
    if submit:
        found["_CONDOR_DAGMAN_CONDOR_SUBMIT_EXE"] = submit
    if remove:
        found["_CONDOR_DAGMAN_CONDOR_RM_EXE"] = remove
    return found


def driver_of(cluster: Cluster, clusters: Mapping[int, Cluster]) -> Job | None:
    """The condor_dagman in the queue that has submitted a cluster: of the same user, and what it says it is."""
    driver = clusters.get(cluster.dag)
    if driver is None or driver.user != cluster.user or driver.universe != Universe.SCHEDULER:
        return None
    return next(iter(driver.jobs.values()), None) if driver.is_dagman else None


def left(driver: Job, job: Job, *, last: bool) -> Changes:
    """What changes in condor_dagman's job when a node's job has left the queue, its cluster's ``last`` one or not."""
    if job.status != Status.COMPLETED:
        return {}
    changes: Changes = {"DAG_JobsCompleted": int(driver.number("DAG_JobsCompleted")) + 1}
    if last and job.number("ExitCode", 1) == 0:
        changes["DAG_NodesDone"] = int(driver.number("DAG_NodesDone")) + 1
    return changes


__all__ = ["batch_name", "driver_of", "environment", "left", "with_batch_name"]

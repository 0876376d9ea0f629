"""Reads into the records of clusters and jobs what they need of their ads. Pure."""

from __future__ import annotations

import os

from slotwise.classad import ClassAd
from slotwise.execution.dagman import is_dagman
from slotwise.model.ownership import domain_of, owner_of
from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.job import Cluster, Priority, finite

#: Event numbers have at most so many digits.
_EVENT_DIGITS = 9
#: The attribute of a job that names its project.
PROJECT = "ProjectName"
#: The attributes that order a user's jobs, in order of precedence.
PRIORITIES = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")


def submitter_of(user: str, ad: ClassAd) -> str:
    """The accounting name of the jobs: AccountingGroup, else the owner, at the user's domain."""
    group = ad.get("AccountingGroup")
    name = group if isinstance(group, str) and group else owner_of(user)
    if ad.get("NiceUser") is True and not name.startswith("nice-user."):
        name = f"nice-user.{name}"
    return name if "@" in name else f"{name}@{domain_of(user)}"


def project_of(ad: ClassAd) -> str:
    """The key of the jobs' project, or "": names do not differ by case."""
    name = ad.get(PROJECT)
    return name.lower() if isinstance(name, str) else ""


def describe(cluster: Cluster, submitted: ClassAd) -> None:
    """Fill in the cluster's record from its ad."""
    name = submitted.get("JobBatchName", cluster.common.get("JobBatchName"))
    cluster.batch_name = name if isinstance(name, str) else ""
    cluster.command = command_of(submitted)
    cluster.is_dagman = is_dagman(submitted.get("Cmd"))
    cluster.log = log_of(submitted)
    dag = submitted.get("DAGManJobId")
    cluster.dag = dag if isinstance(dag, int) and dag > 0 else 0
    cluster.nodes_log = log_of(submitted, "DAGManNodesLog")
    words = str(submitted.get("DAGManNodesMask", "")).replace(",", " ").split()
    cluster.nodes_events = frozenset(
        int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= _EVENT_DIGITS
    )
    told = submitted.get("JobAdInformationAttrs")
    cluster.told_attrs = tuple(told.replace(",", " ").split()) if isinstance(told, str) else ()
    others = submitted.get("OtherJobRemoveRequirements")
    cluster.others_removed = others if isinstance(others, str) else ""
    # Evaluated once and kept: an expression could have another value when the queue is restored.
    universe = cluster.common.setdefault("JobUniverse", int(finite(submitted.get("JobUniverse"), Universe.VANILLA)))
    cluster.universe = int(str(universe))
    cluster.priority = priority_of(submitted)


def command_of(ad: ClassAd) -> str:
    """Base name of the executable, and the arguments."""
    command, arguments = ad.get("Cmd"), ad.get("Arguments") or ad.get("Args")
    text = os.path.basename(command) if isinstance(command, str) else ""
    return f"{text} {arguments}".rstrip() if isinstance(arguments, str) else text


def log_of(ad: ClassAd, name: str = "UserLog") -> str:
    """Absolute path of an event log, or ""."""
    log, iwd = ad.get(name), ad.get("Iwd")
    if not isinstance(log, str) or log in ("", "/dev/null"):
        return ""
    return os.path.join(iwd if isinstance(iwd, str) else "/", log)


def priority_of(ad: ClassAd) -> Priority:
    """The five priorities of a job, negated so that the best sorts first."""
    found = []
    for name in PRIORITIES:
        found.append(-int(finite(ad.get(name))))
    return (found[0], found[1], found[2], found[3], found[4])

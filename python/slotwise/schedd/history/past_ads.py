"""Rebuilds the ads of jobs that have left the queue from the database: cluster ad, the job's delta, its changes."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from slotwise.classad import ClassAd
from slotwise.errors import HostError
from slotwise.schedd.jobs.ads import native, removed
from slotwise.schedd.jobs.values import decode
from slotwise.table import unpack_ads


class PastJob(NamedTuple):
    """A row of the history, in the order of :data:`COLUMNS`."""

    seq: int
    cluster: int
    proc: int
    owner: str
    status: int
    delta: bytes | None
    changes: str | None


#: The most cluster ads that are cached.
_CLUSTERS_MOST = 1000
COLUMNS = ", ".join(PastJob._fields)


class PastAds:
    """Builds ads from rows, and caches ads of clusters.

    :param has_environment: whether ads show jobs' environments (HISTORY_CONTAINS_JOB_ENVIRONMENT).
    """

    def __init__(self, connection: sqlite3.Connection, schedd_name: str, *, has_environment: bool) -> None:
        self._has_environment = has_environment
        self._connection = connection
        self._name = schedd_name
        self._clusters: dict[int, tuple[ClassAd, int]] = {}

    def ad(self, job: PastJob) -> ClassAd:
        """The job's last ad.

        :raises HostError: when its cluster is missing.
        """
        base, qdate = self._cluster(job.cluster)
        ad = base.copy()
        if job.delta:
            ad.update(unpack_ads(job.delta)[0])
        ad["ProcId"] = job.proc
        ad["GlobalJobId"] = f"{self._name}#{job.cluster}.{job.proc}#{qdate}"
        own = decode(job.changes)
        ad.update(native(own))
        for name in removed(own):
            ad.pop(name, None)
        ad["JobStatus"] = job.status
        if not self._has_environment:
            ad.pop("Env", None)
            ad.pop("Environment", None)
        return ad

    def _cluster(self, number: int) -> tuple[ClassAd, int]:
        known = self._clusters.get(number)
        if known is None:
            if len(self._clusters) >= _CLUSTERS_MOST:
                self._clusters.clear()
            sql = "SELECT ad, common, qdate FROM clusters WHERE cluster=?"
            found = self._connection.execute(sql, (number,)).fetchone()
            if found is None:
                raise HostError(f"the history has no cluster {number}")
            base = unpack_ads(found[0])[0]
            base.update(native(decode(found[1])))
            known = self._clusters[number] = (base, found[2])
        return known

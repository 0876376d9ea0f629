"""How many jobs may run at a time by the records of users and projects (MaxJobsRunning). Pure."""

from __future__ import annotations

from typing import TypeAlias

from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.jobs.job_index import JobIndex
from slotwise.schedd.storage.batch import RecordKind
from slotwise.schedd.users.projects import ProjectRecords
from slotwise.schedd.users.records import UserRecords

#: A user or a project with a limit.
Limited: TypeAlias = tuple[RecordKind, str]


class RunningLimits:
    """The limits of users and projects, and how much of each is left.

    As in HTCondor, jobs of the scheduler universe count by themselves: a user whose limit is 1 can run a DAG and one
    of its nodes.
    """

    def __init__(self, index: JobIndex, users: UserRecords, projects: ProjectRecords) -> None:
        self._index = index
        self._users = users
        self._projects = projects

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self._users.limited or self._projects.limited

    def rooms(self, cluster: Cluster) -> dict[Limited, int]:
        """How many more jobs of a cluster may run by each limit that holds for it; no entry where none does."""
        rooms: dict[Limited, int] = {}
        if (most := self._users.running_most(cluster.user)) is not None:
            running = self._index.running_of(cluster.user, cluster.universe)
            rooms[RecordKind.USER, cluster.user] = most - running
        if cluster.project and (most := self._projects.running_most(cluster.project)) is not None:
            running = self._index.running_in(cluster.project, cluster.universe)
            rooms[RecordKind.PROJECT, cluster.project] = most - running
        return rooms

    def has_room(self, cluster: Cluster) -> bool:
        """Whether all limits let another job of the cluster run."""
        return all(room > 0 for room in self.rooms(cluster).values())


def holds_for(limit: Limited, cluster: Cluster) -> bool:
    """Whether a limit is that of the user or the project of a cluster."""
    kind, name = limit
    return name == (cluster.user if kind == RecordKind.USER else cluster.project)

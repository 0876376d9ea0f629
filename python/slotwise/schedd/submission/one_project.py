"""Gives the jobs of a cluster one project, where projects have records. Pure.

As in HTCondor with PERSISTENT_PROJECT_RECORDS, ProjectName is an attribute of clusters: that of the first job holds for
all jobs, and a project is spelled as in its record.
"""

from __future__ import annotations

from slotwise.schedd.jobs.from_ad import PROJECT
from slotwise.schedd.submission.new_cluster import NewJobs, redescribe
from slotwise.schedd.users.projects import ProjectRecords


def settle(new: NewJobs, projects: ProjectRecords, *, late: bool) -> None:
    """Give new jobs their project. ``late``: their cluster is in the queue already, and has it.

    :raises DeniedError: when the project is disabled, or what is given is not a name.
    """
    if not projects.kept:
        return
    source, changes = new.submitted, False
    if new.deltas and (late or PROJECT.lower() in new.cluster.varied):
        if PROJECT in new.deltas[0]:
            source = new.deltas[0].copy()
        if not late and len(new.deltas) > 1:
            new.notices.append(f"{PROJECT} of the first job holds for all jobs of the cluster")
        for delta in new.deltas:
            changes = delta.pop(PROJECT, None) is not None or changes
    if not late and PROJECT in source:
        name = projects.admitted(source.get(PROJECT), str(source.lookup(PROJECT)))
        if new.submitted.get(PROJECT) != name:
            new.submitted[PROJECT] = name
            changes = True
    if changes:
        redescribe(new, late=late)

"""Project records: whether jobs of a project may be submitted, how many may run, and their usage. Pure.

Manual, condor_qusers -projects and PERSISTENT_PROJECT_RECORDS. A project has a record from the first job on that names
it (submit command ``project_name``), or once an administrator added it. Names do not differ by case. All jobs of a
cluster belong to one project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slotwise.classad import ClassAd
from slotwise.errors import DeniedError, UsageError
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.storage.batch import Batch, RecordKind
from slotwise.schedd.users.record import Record, Records

#: The longest name of a project.
_NAME_MOST = 255


class ProjectRecord(Record):
    """The record of a project."""

    def ad(self, counts: Sequence[int]) -> ClassAd:
        """The ad for queries. ``counts``: jobs in the queue by JobStatus."""
        return self.ad_of({"MyType": "Project", "Name": self.name}, counts)


class ProjectRecords(Records[ProjectRecord]):
    """All project records. ``kept``: PERSISTENT_PROJECT_RECORDS, there are any at all."""

    kind = RecordKind.PROJECT
    noun = "project"

    def __init__(self) -> None:
        super().__init__(ProjectRecord, str.lower)
        self.kept = False

    def __iter__(self) -> Iterator[ProjectRecord]:
        return iter(sorted(self._records.values(), key=lambda record: record.name.lower()))

    # ---- jobs

    def admitted(self, name: object, text: str) -> str:
        """The name of a project that jobs are submitted to, as its record spells it; ``text``: how it was given.

        :raises DeniedError: when the project is disabled, or what is given is not a name.
        """
        if not isinstance(name, str) or not _is_name(name):
            raise DeniedError(
                f"Setting ProjectName to {text}, which is not a valid string",
                hint="the name of a project is a text without quotes, such as project_name = astro",
            )
        record = self.find(name)
        if record is None:
            return name
        if not record.enabled:
            why = record.why_disabled
            raise DeniedError(f"Project {record.name} is suspended" + (f" : {why}" if why else ""))
        return record.name

    def enters(self, name: object, batch: Batch) -> None:
        """Note the project of a cluster that enters the queue; ``name``: its ProjectName."""
        if self.kept and isinstance(name, str):
            batch.know_record(self.kind, self.submits(name).name)

    def left(self, jobs: Iterable[Job], batch: Batch) -> None:
        """Add the usage of jobs that leave the queue to their projects' totals."""
        if self.kept:
            self.count(jobs, lambda cluster: cluster.project, batch)

    # ---- administrators

    def require_kept(self) -> None:
        """Check that there are project records.

        :raises UsageError: when PERSISTENT_PROJECT_RECORDS is off.
        """
        if not self.kept:
            raise UsageError(
                "this access point keeps no records of projects",
                hint="set PERSISTENT_PROJECT_RECORDS = true and restart the schedd;"
                " `slotwise q -af ProjectName` lists the projects of jobs",
            )

    @staticmethod
    def require_names(names: Iterable[str]) -> None:
        """Check that these are valid names of projects.

        :raises UsageError: naming one that is not.
        """
        for name in names:
            if not _is_name(name):
                raise UsageError(f"{name!r} is not a project's name", hint="a text without quotes")

    def remove(self, name: str, *, in_use: bool, batch: Batch) -> str:
        """Remove a project's record; as in HTCondor, one with jobs in the queue stays: returns why, or ""."""
        record = self.known(name)
        if in_use:
            return f"Project {record.name} is in use"
        self._delete(record, batch)
        return ""


def _is_name(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and '"' not in text and len(text) <= _NAME_MOST

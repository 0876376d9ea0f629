"""Records an ad for each run of a job: JOB_EPOCH_HISTORY, rotated by size, and files by job in JOB_EPOCH_HISTORY_DIR.

`slotwise history -epochs` and HTCondor's reader read them: the ad in long form, then a line of three stars that
names the run. Written as the daemon once the end of the run is durable, but not transactionally: a crash may lose a
record, and never duplicates one.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import dataclass, field

from slotwise.classad.long_form import long_form, on_one_line
from slotwise.daemon import history_file
from slotwise.daemon.history_file import Record, Rotation
from slotwise.daemon.record_writer import RecordWriter
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.table import unpack_ads


@dataclass(frozen=True)
class RunHistorySettings:
    """The file and directory of records ("" for none), and the rotation of the file."""

    path: str = ""
    directory: str = ""
    rotation: Rotation = field(default_factory=Rotation)


@dataclass(frozen=True)
class RunRecord:
    """A run that is over: its job's ad as a pack, the run's number in the job (from 0), and its end."""

    cluster: int
    proc: int
    instance: int
    owner: str
    at: int
    ad: bytes

    def record(self) -> Record:
        """The record as text."""
        ad = unpack_ads(self.ad)[0]
        ad.update({"RunInstanceId": self.instance, "EpochAdType": "EPOCH"})
        banner = on_one_line(
            f"EPOCH ClusterId={self.cluster} ProcId={self.proc} RunInstanceId={self.instance}"
            f' Owner="{self.owner}" CurrentTime={self.at}'
        )
        return Record(f"{long_form(ad)}EpochWriteDate = {self.at}\n", banner)


def record_of(run_id: str, job: Job, ads: JobAds, now: float) -> RunRecord:
    """The record of a run that ends now, with its job's newest changes."""
    pack = ads.latest_pack(job, {"JobStatus": int(job.status)})
    instance = int(run_id.partition("#")[2] or 1) - 1
    return RunRecord(job.cluster.number, job.proc, instance, job.owner, int(now), pack)


class RunHistory(RecordWriter[RunRecord]):
    """Collects records; a worker thread writes them in batches."""

    def __init__(self, threads: Executor) -> None:
        super().__init__(lambda records: write(self.settings, records), "the history of runs", threads)
        self.settings = RunHistorySettings()

    @property
    def is_kept(self) -> bool:
        """Whether records are written anywhere."""
        return bool(self.settings.path or self.settings.directory)


def write(settings: RunHistorySettings, records: list[RunRecord]) -> None:
    """Append records to the files that ``settings`` name.

    :raises OSError: when that is not possible.
    """
    found = [one.record() for one in records]
    if settings.directory:
        for one, record in zip(records, found, strict=True):
            name = f"job.runs.{one.cluster}.{one.proc}.ads"
            with open(os.path.join(settings.directory, name), "ab") as stream:
                stream.write(record.data(0)[0])
    if settings.path:
        history_file.append(settings.path, found, settings.rotation, records[-1].at)

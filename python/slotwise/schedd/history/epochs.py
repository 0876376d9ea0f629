"""One ad for each run of a job: JOB_EPOCH_HISTORY, rotated by size, and a file for each job in JOB_EPOCH_HISTORY_DIR.

`slotwise history -epochs` and HTCondor's reader read them: the ad in long form, then a line of three stars that
names the run. Written as the daemon once the end of the run is durable, without more promise: a kill at the wrong
moment may cost a record here, and never repeats one.
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
    """Where records go ("" for nowhere), and when the file is put aside."""

    path: str = ""
    directory: str = ""
    rotation: Rotation = field(default_factory=Rotation)


@dataclass(frozen=True)
class RunRecord:
    """A run that is over: its job's ad as a pack, which of the job's runs it was (from 0), and when it ended."""

    cluster: int
    proc: int
    instance: int
    owner: str
    at: int
    ad: bytes

    def record(self) -> Record:
        """The record as it stands in a file."""
        ad = unpack_ads(self.ad)[0]
        ad.update({"RunInstanceId": self.instance, "EpochAdType": "EPOCH"})
        banner = on_one_line(
            f"EPOCH ClusterId={self.cluster} ProcId={self.proc} RunInstanceId={self.instance}"
            f' Owner="{self.owner}" CurrentTime={self.at}'
        )
        return Record(f"{long_form(ad)}EpochWriteDate = {self.at}\n", banner)


def record_of(run_id: str, job: Job, ads: JobAds, now: float) -> RunRecord:
    """The record of a run that ends now, its job's newest changes included."""
    pack = ads.latest_pack(job, {"JobStatus": int(job.status)})
    instance = int(run_id.partition("#")[2] or 1) - 1
    return RunRecord(job.cluster.number, job.proc, instance, job.owner, int(now), pack)


class RunHistory(RecordWriter[RunRecord]):
    """Gathers records and has a worker thread write them, those of a moment together."""

    def __init__(self, threads: Executor) -> None:
        super().__init__(lambda records: write(self.settings, records), "the history of runs", threads)
        self.settings = RunHistorySettings()

    @property
    def is_kept(self) -> bool:
        """Whether records go anywhere."""
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

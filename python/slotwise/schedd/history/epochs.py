"""Records ads of each run of a job: JOB_EPOCH_HISTORY, rotated by size, and files by job in JOB_EPOCH_HISTORY_DIR.

A run has an ad of its start (SPAWN), one of its end (EPOCH), one of each transfer by plugins (INPUT, OUTPUT), and one
of common input files that were sent for it (COMMON).
`slotwise history -epochs` and HTCondor's reader read them: the ad in long form, then a line of three stars that
names the kind and the run. Written as the daemon once the start or end of the run is durable, but not transactionally:
a crash may lose a record, and never duplicates one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Literal

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form, on_one_line
from slotwise.classad.values import Value
from slotwise.config import Config
from slotwise.daemon import history_file
from slotwise.daemon.history_file import Attempt, Record, Rotation, once
from slotwise.daemon.record_writer import RecordWriter
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.table import pack_ads, unpack_ads

Transfer = Literal["INPUT", "OUTPUT"]
Kind = Literal["SPAWN", "EPOCH", "COMMON"] | Transfer
#: Attributes of reports of starters that hold what plugins said of a transfer, by the kind of record.
PLUGIN_RESULTS: Mapping[Transfer, str] = {"INPUT": "InputPluginResultList", "OUTPUT": "OutputPluginResultList"}
_INVOCATIONS: Mapping[Transfer, str] = {"INPUT": "InputPluginInvocations", "OUTPUT": "OutputPluginInvocations"}
_TRANSFERS: tuple[Kind, ...] = (*PLUGIN_RESULTS, "COMMON")
#: What every record of a transfer has of the job, besides its id and owner.
_OF_TRANSFERS = ("GlobalJobId", "User", "RemoteHost")


class RunHistorySettings(Struct, frozen=True):
    """The file and directory of records ("" for none), the rotation of the file, and which attributes records have.

    :param spawn_attributes: further attributes of SPAWN records; None for the whole ad.
    :param transfer_attributes: further attributes of records of transfers.
    """

    path: str = ""
    directory: str = ""
    rotation: Rotation = field(default_factory=Rotation)
    spawn_attributes: tuple[str, ...] | None = ()
    transfer_attributes: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config) -> RunHistorySettings:
        """The settings that JOB_EPOCH_HISTORY and its companions give."""
        whole = config.get_str("SPAWN_JOB_ATTRS").strip().lower() == "all"
        return cls(
            config.get_str("JOB_EPOCH_HISTORY").strip(),
            config.get_str("JOB_EPOCH_HISTORY_DIR").strip(),
            Rotation(config.get_int("MAX_EPOCH_HISTORY_LOG"), max(1, config.get_int("MAX_EPOCH_HISTORY_ROTATIONS"))),
            None if whole else tuple(config.get_list("SPAWN_JOB_ATTRS")),
            {kind: _transfer_attributes(config, kind) for kind in _TRANSFERS},
        )


def _transfer_attributes(config: Config, kind: Kind) -> tuple[str, ...]:
    own = f"{kind}_JOB_ATTRS"
    has_own = kind in PLUGIN_RESULTS and config.get(own) is not None
    return tuple(config.get_list(own if has_own else "TRANSFER_JOB_ATTRS"))


class RunRecord(Struct, frozen=True):
    """A record of a run: its kind, an ad as a pack, the run's number in the job (from 0), and the time."""

    cluster: int
    proc: int
    instance: int
    owner: str
    at: int
    ad: bytes
    kind: Kind = "EPOCH"

    def record(self) -> Record:
        """The record as text."""
        ad = unpack_ads(self.ad)[0]
        ad.update({"RunInstanceID": self.instance, "EpochAdType": self.kind})
        banner = on_one_line(
            f"{self.kind} ClusterId={self.cluster} ProcId={self.proc} RunInstanceId={self.instance}"
            f' Owner="{self.owner}" CurrentTime={self.at}'
        )
        return Record(f"{long_form(ad)}EpochWriteDate = {self.at}\n", banner)


def record_of(run_id: str, job: Job, ads: JobAds, now: float) -> RunRecord:
    """The EPOCH record of a run that ends now, with its job's newest changes."""
    return _record("EPOCH", run_id, job, ads.latest_pack(job, {"JobStatus": int(job.status)}), now)


def spawn_record(run_id: str, job: Job, ads: JobAds, attributes: tuple[str, ...] | None, now: float) -> RunRecord:
    """The SPAWN record of a run that starts now, with these ``attributes`` of its job; None for all."""
    if attributes is None:
        return _record("SPAWN", run_id, job, ads.latest_pack(job, {}), now)
    found: dict[str, Value] = {
        "NumShadowStarts": int(job.number("NumShadowStarts")),
        "ShadowBday": int(job.number("ShadowBday")),
    }
    if attributes:
        found |= _chosen(ads.ad(job), attributes)
    return _record("SPAWN", run_id, job, pack_ads([_identified(job, found)]), now)


def transfer_records(
    run_id: str, job: Job, ads: JobAds, pack: bytes, settings: RunHistorySettings, now: float
) -> Iterator[RunRecord]:
    """The records of transfers whose plugins' results are in a starter's report, a pack of one ad."""
    if b"PluginResultList" not in pack:
        return
    report = unpack_ads(pack)[0]
    for kind, name in PLUGIN_RESULTS.items():
        told = report.eval(name)
        if not isinstance(told, list):
            continue
        said = [ad for ad in told if isinstance(ad, ClassAd)]
        # The starter tells in one list how each plugin was called, and what it said of each file.
        found = _chosen(ads.ad(job), (*_OF_TRANSFERS, *settings.transfer_attributes.get(kind, ())))
        found["TransferClass"] = kind
        found[_INVOCATIONS[kind]] = [ad for ad in said if "TransferClass" in ad]
        found[name] = [ad for ad in said if "TransferClass" not in ad]
        yield _record(kind, run_id, job, pack_ads([_identified(job, found)]), now)


def common_record(
    run_id: str, job: Job, ads: JobAds, files: int, size: int, settings: RunHistorySettings, now: float
) -> RunRecord:
    """The record of common input files that were sent for a run: how many, and their bytes."""
    found = _chosen(ads.ad(job), (*_OF_TRANSFERS, *settings.transfer_attributes.get("COMMON", ())))
    found |= {"CedarFilesCount": files, "CedarSizeBytes": size, "Protocols": "cedar"}
    return _record("COMMON", run_id, job, pack_ads([_identified(job, found)]), now)


def _chosen(ad: ClassAd, names: tuple[str, ...]) -> dict[str, Value]:
    return {name: ad.lookup(name) for name in names if name in ad}


def _identified(job: Job, attributes: Mapping[str, Value]) -> ClassAd:
    return ClassAd({**attributes, "ClusterId": job.cluster.number, "ProcId": job.proc, "Owner": job.owner})


def _record(kind: Kind, run_id: str, job: Job, pack: bytes, now: float) -> RunRecord:
    instance = int(run_id.partition("#")[2] or 1) - 1
    return RunRecord(job.cluster.number, job.proc, instance, job.owner, int(now), pack, kind)


class RunHistory(RecordWriter[RunRecord]):
    """Collects records; a worker thread writes them in batches."""

    def __init__(self, threads: Executor) -> None:
        super().__init__(lambda records: write(self.settings, records, self.attempt), "the history of runs", threads)
        self.settings = RunHistorySettings()

    @property
    def is_kept(self) -> bool:
        """Whether records are written anywhere."""
        return bool(self.settings.path or self.settings.directory)


def write(settings: RunHistorySettings, records: list[RunRecord], attempt: Attempt = once) -> None:
    """Append records to the files that ``settings`` name.

    :param attempt: does each step.

    :raises OSError: when that is not possible.
    """
    found = [one.record() for one in records]
    # First the file that commands read: a directory that is not there keeps nothing out of it.
    try:
        if settings.path:
            history_file.append(settings.path, found, settings.rotation, records[-1].at, attempt)
    finally:
        if settings.directory:
            for one, record in zip(records, found, strict=True):
                name = f"job.runs.{one.cluster}.{one.proc}.ads"
                attempt(partial(_add, os.path.join(settings.directory, name), record.data(0)[0]))


def _add(path: str, data: bytes) -> int:
    with open(path, "ab") as stream:
        stream.write(data)
    return 1

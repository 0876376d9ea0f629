"""The execution point's own history: an ad for each job that ended here (STARTD_HISTORY).

The ad is the one the job came with, with the usage that was told last, and how long it was here. `slotwise history
-startd` reads it.
"""

from __future__ import annotations

import re
from functools import partial

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form, on_one_line
from slotwise.classad.values import number
from slotwise.config import Config
from slotwise.daemon import history_file
from slotwise.daemon.history_file import Attempt, Record, Rotation, once
from slotwise.daemon.record_writer import RecordWriter

#: JobStatus: completed, and removed for one that did not end by itself.
_COMPLETED, _REMOVED = 4, 3
_NAME = re.compile(r"[A-Za-z0-9_.@#+-]{1,200}")


class JobHistorySettings(Struct, frozen=True):
    """Where the file and the files of single jobs are ("" for none), and when the file is put aside."""

    path: str = ""
    directory: str = ""
    rotation: Rotation = field(default_factory=Rotation)

    @classmethod
    def of(cls, config: Config) -> JobHistorySettings:
        """As the configuration says."""
        return cls(
            config.get_str("STARTD_HISTORY").strip(),
            config.get_str("STARTD_PER_JOB_HISTORY_DIR").strip(),
            Rotation.of(config),
        )


def history_ad(ad: ClassAd, slot_name: str, how: str, activated_at: float, now: float) -> ClassAd:
    """The ad of a job that ended here."""
    ended = ad.copy()
    ended.update(
        {
            "CompletionDate": int(now),
            "RemoteWallClockTime": max(0, int(now - activated_at)),
            "JobStatus": _COMPLETED if how == "exited" else _REMOVED,
            "RemoteHost": slot_name,
        }
    )
    return ended


class JobHistory(RecordWriter[ClassAd]):
    """Has records written in a thread, those of a moment together."""

    def __init__(self, settings: JobHistorySettings) -> None:
        super().__init__(lambda ads: write(self.settings, ads, self.attempt), "STARTD_HISTORY")
        self.settings = settings

    @property
    def is_kept(self) -> bool:
        """Whether there is such a history."""
        return bool(self.settings.path or self.settings.directory)


def write(settings: JobHistorySettings, ads: list[ClassAd], attempt: Attempt = once) -> None:
    """Append records.

    :param attempt: does each step.
    :raises OSError: when that is not possible.
    """
    records = [_record(ad) for ad in ads]
    if settings.path:
        history_file.append(settings.path, records, settings.rotation, number(ads[-1]["CompletionDate"]), attempt)
    if settings.directory:
        for ad, record in zip(ads, records, strict=True):
            job = ad.get("GlobalJobId")
            # The access point names it: no name may lead elsewhere.
            name = f"history.{job}" if isinstance(job, str) and _NAME.fullmatch(job) else ""
            if name:
                attempt(partial(_put, settings.directory, name, record.text))


def _put(directory: str, name: str, text: str) -> int:
    history_file.write_per_job(directory, name, text)
    return 1


def _record(ad: ClassAd) -> Record:
    banner = on_one_line(
        f'ClusterId = {ad.get("ClusterId", -1)} ProcId = {ad.get("ProcId", -1)} Owner = "{ad.get("Owner", "?")}"'
        f" CompletionDate = {ad['CompletionDate']} CurrentTime = {ad['CompletionDate']}"
    )
    return Record(long_form(ad), banner, chained=True)

"""The execution point's own history: an ad for each job that ended here (STARTD_HISTORY).

The ad is the one the job came with, with the usage that was told last, and how long it was here. `slotwise history
-startd` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form, on_one_line
from slotwise.config import Config
from slotwise.daemon import history_file
from slotwise.daemon.record_writer import RecordWriter

#: JobStatus: completed, and removed for one that did not end by itself.
_COMPLETED, _REMOVED = 4, 3


@dataclass(frozen=True)
class JobHistorySettings:
    """Where the file is ("" for none), how large it may grow (bytes), how many older ones are kept."""

    path: str = ""
    size_most: int = 20 * 1024 * 1024
    rotations: int = 2

    @classmethod
    def of(cls, config: Config) -> JobHistorySettings:
        """As the configuration says."""
        return cls(
            config.get_str("STARTD_HISTORY").strip(),
            config.get_int("MAX_HISTORY_LOG"),
            max(1, config.get_int("MAX_HISTORY_ROTATIONS")),
        )


def record(ad: ClassAd, slot_name: str, how: str, activated_at: float, now: float) -> ClassAd:
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
        super().__init__(lambda ads: write(self.settings, ads), "STARTD_HISTORY")
        self.settings = settings

    @property
    def is_kept(self) -> bool:
        """Whether there is such a history."""
        return bool(self.settings.path)


def write(settings: JobHistorySettings, ads: list[ClassAd]) -> None:
    """Append records.

    :raises OSError: when that is not possible.
    """
    text, offset = "", history_file.size_of(settings.path)
    for ad in ads:
        banner = on_one_line(
            f"*** Offset = {offset} ClusterId = {ad.get('ClusterId', -1)} ProcId = {ad.get('ProcId', -1)}"
            f' Owner = "{ad.get("Owner", "?")}" CompletionDate = {ad["CompletionDate"]}'
            f" CurrentTime = {ad['CompletionDate']}"
        )
        record = f"{long_form(ad)}{banner}\n"
        text += record
        offset += len(history_file.encoded(record))
    history_file.append(settings.path, text, size_most=settings.size_most, rotations=settings.rotations)

"""The knobs of the librarian. Source: manual, "Librarian Configuration Options"."""

from __future__ import annotations

from msgspec import Struct

from slotwise.config import Config
from slotwise.errors import ConfigError


class LibrarianRules(Struct, frozen=True):
    """Which history is read into which database, how often, how much at a time, and how large the database gets.

    Times are in seconds, sizes in bytes. The marks are parts of the size at which records of files that are gone are
    removed (``high``), and to which the database is reduced then (``low``).
    """

    history: str = ""
    database: str = ""
    interval_s: float = 5
    most_records: int = 100_000
    size_most: int = 2 * 1024**3
    high: float = 0.97
    low: float = 0.8
    backoff_s: float = 1800
    retention_s: float = 300
    most_cached: int = 10_000
    busy_s: float = 30

    @property
    def is_on(self) -> bool:
        """Whether there is a history to read, and a database to write."""
        return bool(self.history and self.database)


def read(config: Config) -> LibrarianRules:
    """The rules of the configuration.

    :raises ConfigError: a knob is not a number, or one that cannot be.
    """
    high, low = config.get_float("LIBRARIAN_HIGH_WATER_MARK"), config.get_float("LIBRARIAN_LOW_WATER_MARK")
    for knob, mark in (("LIBRARIAN_HIGH_WATER_MARK", high), ("LIBRARIAN_LOW_WATER_MARK", low)):
        if not 0 <= mark <= 1:
            raise ConfigError(f"{knob} is {mark:g}", hint="write a part of the size, from 0 to 1", key=knob)
    if low > high:
        raise ConfigError(
            f"LIBRARIAN_LOW_WATER_MARK ({low:g}) is above LIBRARIAN_HIGH_WATER_MARK ({high:g})",
            hint="the database is reduced from the high mark to the low one",
            key="LIBRARIAN_LOW_WATER_MARK",
        )
    size = config.get_int("LIBRARIAN_MAX_DATABASE_SIZE")
    if size <= 0:
        raise ConfigError(
            f"LIBRARIAN_MAX_DATABASE_SIZE is {size}", hint="write a size in bytes", key="LIBRARIAN_MAX_DATABASE_SIZE"
        )
    return LibrarianRules(
        config.get_str("HISTORY").strip(),
        config.get_str("LIBRARIAN_DATABASE").strip(),
        max(0.0, config.get_float("LIBRARIAN_UPDATE_INTERVAL")),
        max(0, config.get_int("LIBRARIAN_MAX_UPDATES_PER_CYCLE")),
        size,
        high,
        low,
        max(0.0, config.get_float("LIBRARIAN_GC_BACKOFF_SECONDS")),
        max(0.0, config.get_float("LIBRARIAN_STATUS_RETENTION_SECONDS")),
        max(1, config.get_int("LIBRARIAN_MAX_JOBS_CACHED")),
        config.get_int("LIBRARIAN_DATABASE_BUSY_TIMEOUT_MS") / 1000,
    )

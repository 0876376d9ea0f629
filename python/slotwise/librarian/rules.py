"""The knobs of the librarian. Source: manual, "Librarian Configuration Options"."""

from __future__ import annotations

from msgspec import Struct

from slotwise.config import Config


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

    :raises ConfigError: a knob is not a number.
    """
    return LibrarianRules(
        config.get_str("HISTORY").strip(),
        config.get_str("LIBRARIAN_DATABASE").strip(),
        max(0.0, config.get_float("LIBRARIAN_UPDATE_INTERVAL")),
        max(0, config.get_int("LIBRARIAN_MAX_UPDATES_PER_CYCLE")),
        config.get_int("LIBRARIAN_MAX_DATABASE_SIZE"),
        config.get_float("LIBRARIAN_HIGH_WATER_MARK"),
        config.get_float("LIBRARIAN_LOW_WATER_MARK"),
        max(0.0, config.get_float("LIBRARIAN_GC_BACKOFF_SECONDS")),
        max(0.0, config.get_float("LIBRARIAN_STATUS_RETENTION_SECONDS")),
        max(1, config.get_int("LIBRARIAN_MAX_JOBS_CACHED")),
        config.get_int("LIBRARIAN_DATABASE_BUSY_TIMEOUT_MS") / 1000,
    )

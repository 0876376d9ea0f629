"""The record of sleeps: which machine slept from when to when, in a SQLite file of the collector.

A sleep begins when a machine's first slot goes offline and ends when one of its slots advertises again, or when none of
its offline ads is left. Beyond SLOTWISE_MAX_SLEEP_RECORDS the oldest sleeps that have ended are deleted.

The record is for people: a file that cannot be written is logged, and keeps no machine awake.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.classad.values import Value
from slotwise.daemon import database
from slotwise.daemon.database import MEMORY

if TYPE_CHECKING:
    from slotwise.classad import ClassAd

_log = logging.getLogger(__name__)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sleep (
    machine TEXT NOT NULL, level INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER, saved_watts REAL
);
CREATE INDEX IF NOT EXISTS sleep_of_machine ON sleep (machine, began);
CREATE INDEX IF NOT EXISTS sleep_ended ON sleep (ended);
"""
#: The deepest level, and the most watts that a machine may state: anything beyond is a mistake.
_LEVELS = 5
_MOST_WATTS = 1e6
#: Sleeps that end between two checks for too many of them.
_PRUNE_EVERY = 100


class Sleep(Struct, frozen=True):
    """One sleep of a machine (epoch seconds).

    :param ended: None while the machine sleeps.
    :param saved_watts: how much less the machine draws while it sleeps; None if unknown.
    """

    machine: str
    level: int
    began: int
    ended: int | None = None
    saved_watts: float | None = None


class SleepRecord:
    """The file; a record in memory where the file cannot be used.

    :param most: how many sleeps are kept (SLOTWISE_MAX_SLEEP_RECORDS).
    """

    def __init__(self, path: Path | str, most: int) -> None:
        self.most = most
        self._path = path
        self._failed = False
        self._ended = 0
        self._database = self._opened()
        rows = self._database.execute("SELECT machine, rowid FROM sleep WHERE ended IS NULL ORDER BY began")
        self._open: dict[str, int] = dict(rows.fetchall())

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def asleep(self) -> Collection[str]:
        """The machines whose sleep has not ended."""
        return self._open.keys()

    def slept(self, machine: str, ad: ClassAd, at: float) -> None:
        """Record that a machine has gone to sleep, with the ad of one of its slots, unless it sleeps already."""
        if machine in self._open:
            return
        level = ad.eval("HibernationLevel")
        if not isinstance(level, int) or isinstance(level, bool) or not 0 <= level <= _LEVELS:
            level = 0
        row = (machine, level, int(at), saved_watts(ad))
        with self._tolerant():
            found = self._database.execute(
                "INSERT INTO sleep (machine, level, began, saved_watts) VALUES (?, ?, ?, ?)", row
            )
            if found.lastrowid is not None:
                self._open[machine] = found.lastrowid

    def woke(self, machine: str, at: float) -> None:
        """Record that a machine is back, or no longer expected."""
        row = self._open.pop(machine, None)
        if row is None:
            return
        with self._tolerant():
            self._database.execute("UPDATE sleep SET ended = MAX(began, ?) WHERE rowid = ?", (int(at), row))
            self._ended += 1
            if self._ended % _PRUNE_EVERY == 0:
                self.prune()

    def take_up(self, offline: Mapping[str, tuple[ClassAd, float]], now: float) -> None:
        """The collector has started: these machines sleep, each with an ad and the time at which it went to sleep."""
        for machine in [name for name in self._open if name not in offline]:
            self.woke(machine, now)
        for machine, (ad, at) in offline.items():
            with self._tolerant():
                query = "SELECT MAX(ended) FROM sleep WHERE machine = ?"
                (ended,) = self._database.execute(query, (machine,)).fetchone()
                if ended is None or ended < at:  # else one of its slots is back already
                    self.slept(machine, ad, at)
        with self._tolerant():
            self.prune()

    def prune(self) -> None:
        """Delete the oldest sleeps beyond the limit."""
        self._database.execute(
            "DELETE FROM sleep WHERE ended IS NOT NULL AND rowid IN"
            " (SELECT rowid FROM sleep WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT -1 OFFSET ?)",
            (max(0, self.most - len(self._open)),),
        )

    def between(self, since: int, until: int, machines: Collection[str] = ()) -> Iterator[Sleep]:
        """The sleeps within a span of time, oldest first; of the named machines only, if any are named."""
        rows = self._database.execute(
            "SELECT machine, level, began, ended, saved_watts FROM sleep"
            " WHERE began < ? AND (ended IS NULL OR ended > ?) ORDER BY began, machine",
            (until, since),
        )
        for row in rows:
            if not machines or row[0] in machines:
                yield Sleep(*row)

    def _opened(self) -> sqlite3.Connection:
        if self._path == MEMORY:
            return database.sound(MEMORY, _prepare)
        try:
            return database.sound_or_new(Path(self._path), _prepare, _log, "the record of sleeps begins anew")
        except (sqlite3.Error, OSError) as error:
            _log.error("cannot use %s: %s; sleeps are recorded in memory only", self._path, error)
            return database.sound(MEMORY, _prepare)

    def _begin_anew(self) -> None:
        """Go on with another file: the one at hand is damaged. Sleeps that have begun are not in it."""
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._database = self._opened()
        rows = self._database.execute("SELECT machine, rowid FROM sleep WHERE ended IS NULL ORDER BY began")
        self._open = dict(rows.fetchall())

    def _tolerant(self) -> _Tolerant:
        return _Tolerant(self)

    def failed(self, error: Exception | None) -> None:
        """Log once that nothing can be written, and once that it can be again."""
        if error is not None and database.is_damage(error) and self._path != MEMORY:
            self._begin_anew()
        elif error is not None and not self._failed:
            _log.error("cannot record in %s which machines sleep: %s", self._path, error)
        elif error is None and self._failed:
            _log.info("sleeps are recorded in %s again", self._path)
        self._failed = error is not None


class _Tolerant:
    """A step whose failure costs a line of the record and nothing else."""

    def __init__(self, record: SleepRecord) -> None:
        self._record = record

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Swallow what SQLite says."""
        if error is not None and not isinstance(error, sqlite3.Error):
            return False
        self._record.failed(error)
        return error is not None


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(_SCHEMA)


def saved_watts(ad: ClassAd) -> float | None:
    """How much less a machine draws while it sleeps: IdleWatts - AsleepWatts of its ad; None if it does not say."""
    idle, asleep = (_watts(ad.eval(name)) for name in ("IdleWatts", "AsleepWatts"))
    if idle is None or asleep is None:
        return None
    return idle - asleep if 0 < idle - asleep <= _MOST_WATTS else None


def _watts(value: Value) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)

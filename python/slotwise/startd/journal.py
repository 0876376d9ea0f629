"""Claims and slots on disk, so that a startd that was killed finds its jobs again.

One SQLite file; a row per slot, written before the change is reported. A crash of the process loses nothing; a
crash of the host may lose the last moments, and with it the jobs, so nothing waits for the disk.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct

from slotwise.daemon import database
from slotwise.errors import HostError
from slotwise.model.claim import Claim, Run
from slotwise.model.resources import Resources
from slotwise.model.stored_form import Json
from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import SlotRecord, Terms
from slotwise.startd.slot import states
from slotwise.startd.slot.stored_names import stored_class, stored_field

_KINDS: dict[str, type[Struct]] = {
    stored_class(kind): kind
    for kind in (
        states.Idle, states.Busy, states.Suspended, states.Retiring, states.Cleaning, states.Vacating, states.Killing,
        states.Cause, states.Hold, states.Waiting, states.Owner, states.Unclaimed, states.Matched, states.SoftEnd,
        states.Claimed, states.Preempting, states.Backfill, states.Drained, states.Deleted, states.Draining,
        states.Counters, Claim, Run, Resources, Terms, Breakage, Withheld,
    )
}  # fmt: skip


#: Names that fields of a slot's record are stored under, where they have another name now.
_SAVED_AS = {"withheld": "losses", "pending_withheld": "owed"}


_log = logging.getLogger(__name__)
_LOST = "this startd does not know what it had claimed and run, so that those jobs run again"


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("CREATE TABLE IF NOT EXISTS slots (name TEXT PRIMARY KEY, record TEXT NOT NULL, request BLOB, job BLOB)")
    db.execute("CREATE TABLE IF NOT EXISTS hooks (call TEXT PRIMARY KEY, record TEXT NOT NULL, given BLOB)")
    db.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")


class _Rows(Struct):
    """Rows of the file: of slots by name, of calls of hooks by id in their order, and the values of facts by name."""

    slots: dict[str, tuple[str, str, bytes, bytes]]
    hooks: dict[str, tuple[str, str, bytes]]
    facts: dict[str, str]

    @classmethod
    def of(cls, db: sqlite3.Connection) -> _Rows:
        """All of them."""
        slots = db.execute("SELECT name, record, request, job FROM slots ORDER BY name")
        hooks = db.execute("SELECT call, record, given FROM hooks ORDER BY rowid")
        facts = db.execute("SELECT name, value FROM facts")
        return cls({row[0]: row for row in slots}, {row[0]: row for row in hooks}, dict(facts.fetchall()))

    def take(self, rows: _Rows, gone: Iterable[str], settled: Iterable[str]) -> None:
        """Take over rows that were written, and drop those that were deleted."""
        self.slots |= rows.slots
        self.hooks |= rows.hooks
        self.facts |= rows.facts
        for name in gone:
            self.slots.pop(name, None)
        for call_id in settled:
            self.hooks.pop(call_id, None)


class Journal:
    """The journal of one startd. A file that is damaged while it is open is written anew from memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = database.sound_or_new(path, _prepare, _log, _LOST)
            #: All that the file has, for another one where it turns out to be damaged.
            self._rows = _Rows.of(self._db)
        except (sqlite3.Error, OSError) as error:
            hint = f"{database.hint(error, path)}; without the file the startd starts, and its jobs run again"
            raise HostError(f"the startd's journal {path} cannot be used: {error}", hint=hint, path=str(path)) from None

    def save(
        self,
        changed: Iterable[SlotRecord],
        gone: Iterable[str],
        calls: Iterable[HookCall] = (),
        settled: Iterable[str] = (),
    ) -> None:
        """Write the slots that changed and forget those that are gone, in one step; with them the calls of hooks that
        follow, and without those whose outcome is in this step."""
        slots = {record.name: _row(record) for record in changed}
        self._write(_Rows(slots, {call.call_id: _call(call) for call in calls}, {}), gone, settled)

    def _write(self, rows: _Rows, gone: Iterable[str] = (), settled: Iterable[str] = ()) -> None:
        """Write rows and delete others, in one step. A damaged file is set aside, and a new one gets all that is known.

        :raises HostError: when the file cannot be written.
        """
        gone, settled = list(gone), list(settled)
        self._rows.take(rows, gone, settled)
        try:
            try:
                self._store(rows, gone, settled)
            except sqlite3.Error as error:
                if not database.is_damage(error):
                    raise
                self._begin_anew(error)
        except (sqlite3.Error, OSError) as error:
            text = f"the startd's journal {self._path} cannot be written: {error}"
            raise HostError(text, hint=database.hint(error, self._path), path=str(self._path)) from None

    def _begin_anew(self, damage: sqlite3.Error) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        aside = database.set_aside(self._path)
        self._db = database.sound(self._path, _prepare)
        self._store(self._rows)
        text = "%s is damaged (%s) and was set aside as %s: it was written anew, and nothing is lost"
        _log.error(text, self._path, damage, aside)

    def _store(self, rows: _Rows, gone: Sequence[str] = (), settled: Sequence[str] = ()) -> None:
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", rows.slots.values())
            self._db.executemany("DELETE FROM slots WHERE name = ?", [(name,) for name in gone])
            self._db.executemany("INSERT OR REPLACE INTO hooks VALUES (?, ?, ?)", rows.hooks.values())
            self._db.executemany("DELETE FROM hooks WHERE call = ?", [(call_id,) for call_id in settled])
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows.facts.items())
            self._db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            raise

    def load(self) -> list[SavedSlot]:
        """All slots, as they were saved last; rows that cannot be read are left out."""
        kept = []
        for name, record, request, job in sorted(self._rows.slots.values(), key=itemgetter(0)):
            try:
                fields = {key: _decoded(value) for key, value in json.loads(record).items()}
                activation = fields.pop("activation")
                fetched = fields.pop("coming", None)
                for field, stored in _SAVED_AS.items():
                    fields[field] = fields.pop(stored)
                kept.append(
                    SavedSlot(
                        name=name,
                        request=request,
                        job=job,
                        activation=tuple(activation) if activation else None,
                        fetched_work=(fetched[0], fetched[1], base64.b64decode(fetched[2])) if fetched else None,
                        **fields,
                    )
                )
            except (ValueError, TypeError, KeyError):
                continue
        return kept

    def calls(self) -> list[HookCall]:
        """The calls of hooks whose outcome is not known, in the order in which they were made."""
        found = []
        for call_id, record, given in self._rows.hooks.values():
            try:
                fields = json.loads(record)
                found.append(HookCall(call_id, given=given, **{**fields, "arguments": tuple(fields["arguments"])}))
            except (ValueError, TypeError, KeyError):
                continue
        return found

    def remember(self, name: str, value: object) -> None:
        """Store a fact about the startd itself, which JSON can hold.

        :raises HostError: when the file cannot be written.
        """
        self._write(_Rows({}, {}, {name: json.dumps(value)}))

    def recall(self, name: str) -> Json:
        """A fact that was stored before, or None."""
        row = self._rows.facts.get(name)
        value: Json = json.loads(row) if row is not None else None
        return value

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _call(call: HookCall) -> tuple[str, str, bytes]:
    fields = {name: getattr(call, name) for name in ("hook", "slot_name", "keyword", "arguments", "parent")}
    return call.call_id, json.dumps(fields, separators=(",", ":")), call.given


def _fetched_work(record: SlotRecord) -> tuple[str, str, str] | None:
    if record.fetch.work is None:
        return None
    activation = record.fetch.work.activation
    return activation.run_id, record.fetch.work.claim_id, base64.b64encode(activation.job.pack).decode()


def _row(record: SlotRecord) -> tuple[str, str, bytes, bytes]:
    request, activation = record.request, record.activation
    return (
        record.name,
        _fields_of(record),
        request.pack if request is not None else b"",
        activation.job.pack if activation is not None else b"",
    )


def _fields_of(record: SlotRecord) -> str:
    slot = record.slot
    activation = record.activation
    return json.dumps(
        {
            "parent": record.parent,
            "slot_id": record.slot_id,
            "dslot_id": record.dslot_id,
            "type_number": record.type_number,
            "total": _encoded(record.total),
            "returned": record.returned,
            "capability": record.ids.current,
            "state": _encoded(slot.state),
            "entered_state": slot.entered_state,
            "entered_activity": slot.entered_activity,
            "counters": _encoded(slot.counters),
            "broken": slot.broken,
            "broken_code": slot.broken_code,
            "breakage": _encoded(record.breakage),
            "losses": _encoded(record.withheld.entries),
            "owed": _encoded(record.withheld.pending),
            "last_run": record.last_run,
            "terms": _encoded(record.terms),
            "coming": _fetched_work(record),
            "activation": (activation.run_id, activation.run_token, activation.shadow_address) if activation else None,
        },
        separators=(",", ":"),
    )


#: The fields of each class, with the names that they are stored under.
_FIELDS = {kind: {name: stored_field(kind, name) for name in kind.__struct_fields__} for kind in _KINDS.values()}


def _encoded(value: object) -> Json:
    """Frozen values as JSON, each with the name of its kind."""
    names = _FIELDS.get(type(value)) if isinstance(value, Struct) else None
    if names is not None:
        fields: dict[str, Json] = {"": stored_class(type(value))}
        for name, stored in names.items():
            fields[stored] = _encoded(getattr(value, name))
        return fields
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if value is None or isinstance(
        value, str | int | float | bool
    ):  # enumerations, too, which JSON has as their values
        return value
    raise TypeError(f"{type(value).__name__} has no stored form")


# Any: which class a stored value becomes, its JSON says; the class's constructor takes the fields that it knows.
def _decoded(value: Json) -> Any:
    if isinstance(value, dict):
        fields = {key: _decoded(item) for key, item in value.items() if key}
        if "" not in value:
            return fields
        kind = _KINDS[str(value[""])]
        if kind is Resources:
            for name in ("devices", "shared"):
                fields[name] = {tag: tuple(names) for tag, names in fields.get(name, {}).items()}
        if kind is states.Backfill:
            fields = {}
        return kind(
            **{name: fields.pop(stored) for name, stored in _FIELDS[kind].items() if stored in fields}, **fields
        )
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value

"""Claims and slots on disk, so that a startd that was killed finds its jobs again.

One SQLite file; a row per slot, written before anybody is told of the change. A crash of the process loses nothing; a
crash of the host may lose the last moments, and with it the jobs, so nothing waits for the disk.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slotwise.daemon import database
from slotwise.errors import HostError
from slotwise.model.claim import Claim, Run
from slotwise.model.resources import Resources
from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import Holding, Terms
from slotwise.startd.slot import states
from slotwise.startd.slot.stored_names import stored_class, stored_field

_KINDS: dict[str, type] = {
    stored_class(kind): kind
    for kind in (
        states.Idle, states.Busy, states.Suspended, states.Retiring, states.Cleaning, states.Vacating, states.Killing,
        states.Cause, states.Hold, states.Waiting, states.Owner, states.Unclaimed, states.Matched, states.SoftEnd,
        states.Claimed, states.Preempting, states.Backfill, states.Drained, states.Deleted, states.Draining,
        states.Counters, Claim, Run, Resources, Terms, Breakage, Withheld,
    )
}  # fmt: skip


class Journal:
    """The journal of one startd."""

    def __init__(self, path: Path) -> None:
        try:
            self._db = database.connect(path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=OFF")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS slots (name TEXT PRIMARY KEY, record TEXT NOT NULL, request BLOB, job BLOB)"
            )
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS hooks (call TEXT PRIMARY KEY, record TEXT NOT NULL, given BLOB)"
            )
            self._db.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        except (sqlite3.Error, OSError) as error:
            raise HostError(f"the startd's journal cannot be used: {error}", path=str(path)) from None

    def save(
        self,
        changed: Iterable[Holding],
        gone: Iterable[str],
        calls: Iterable[HookCall] = (),
        settled: Iterable[str] = (),
    ) -> None:
        """Write the slots that changed and forget those that are gone, in one step; with them the calls of hooks that
        follow, and without those whose outcome is in this step."""
        rows = [
            (h.name, _record(h), h.request.pack if h.request else b"", h.activation.job.pack if h.activation else b"")
            for h in changed
        ]
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", rows)
            self._db.executemany("DELETE FROM slots WHERE name = ?", [(name,) for name in gone])
            self._db.executemany("INSERT OR REPLACE INTO hooks VALUES (?, ?, ?)", [_call(call) for call in calls])
            self._db.executemany("DELETE FROM hooks WHERE call = ?", [(call_id,) for call_id in settled])
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise HostError(f"the startd's journal cannot be written: {error}") from None

    def load(self) -> list[SavedSlot]:
        """All slots, as they were saved last; rows that cannot be read are left out."""
        kept = []
        for name, record, request, job in self._db.execute(
            "SELECT name, record, request, job FROM slots ORDER BY name"
        ):
            try:
                fields = {key: _decoded(value) for key, value in json.loads(record).items()}
                activation = fields.pop("activation")
                coming = fields.pop("coming", None)
                kept.append(
                    SavedSlot(
                        name=name,
                        request=request,
                        job=job,
                        activation=tuple(activation) if activation else None,
                        coming=(coming[0], coming[1], base64.b64decode(coming[2])) if coming else None,
                        **fields,
                    )
                )
            except (ValueError, TypeError, KeyError):
                continue
        return kept

    def calls(self) -> list[HookCall]:
        """The calls of hooks of which it is not known what came of them, in the order in which they were made."""
        found = []
        for call_id, record, given in self._db.execute("SELECT call, record, given FROM hooks ORDER BY rowid"):
            try:
                fields = json.loads(record)
                found.append(HookCall(call_id, given=given, **{**fields, "arguments": tuple(fields["arguments"])}))
            except (ValueError, TypeError, KeyError):
                continue
        return found

    def remember(self, name: str, value: Any) -> None:
        """Keep a fact about the startd itself.

        :raises HostError: when the file cannot be written.
        """
        try:
            self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))
        except sqlite3.Error as error:
            raise HostError(f"the startd's journal cannot be written: {error}") from None

    def recall(self, name: str) -> Any:
        """A fact kept before, or None."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _call(call: HookCall) -> tuple[str, str, bytes]:
    fields = {name: getattr(call, name) for name in ("hook", "slot_name", "keyword", "arguments", "parent")}
    return call.call_id, json.dumps(fields, separators=(",", ":")), call.given


def _coming(h: Holding) -> tuple[str, str, str] | None:
    if h.coming is None:
        return None
    activation = h.coming.activation
    return activation.run_id, h.coming.claim_id, base64.b64encode(activation.job.pack).decode()


def _record(h: Holding) -> str:
    slot = h.slot
    activation = h.activation
    return json.dumps(
        {
            "parent": h.parent,
            "slot_id": h.slot_id,
            "dslot_id": h.dslot_id,
            "type_number": h.type_number,
            "total": _encoded(h.total),
            "returned": h.returned,
            "capability": h.capability,
            "state": _encoded(slot.state),
            "entered_state": slot.entered_state,
            "entered_activity": slot.entered_activity,
            "counters": _encoded(slot.counters),
            "broken": slot.broken,
            "broken_code": slot.broken_code,
            "breakage": _encoded(h.breakage),
            "losses": _encoded(h.losses),
            "owed": _encoded(h.owed),
            "last_run": h.last_run,
            "terms": _encoded(h.terms),
            "coming": _coming(h),
            "activation": (activation.run_id, activation.run_token, activation.shadow_address) if activation else None,
        },
        separators=(",", ":"),
    )


#: The fields of each class, with the names that they are stored under.
_FIELDS = {
    kind: {field.name: stored_field(kind, field.name) for field in dataclasses.fields(kind)} for kind in _KINDS.values()
}


def _encoded(value: Any) -> Any:
    """Frozen values as JSON, each with the name of its kind."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    names = _FIELDS.get(kind)
    if names is not None:
        record: dict[str, Any] = {"": stored_class(kind)}
        for name, stored in names.items():
            record[stored] = _encoded(getattr(value, name))
        return record
    if kind in (tuple, list):
        return [_encoded(item) for item in value]
    if kind is dict:
        return {key: _encoded(item) for key, item in value.items()}
    return value


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {key: _decoded(item) for key, item in value.items() if key}
        if "" not in value:
            return fields
        kind = _KINDS[value[""]]
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

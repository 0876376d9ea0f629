"""Accounting state in files: JSON, or what ``condor_userprio -long`` prints.

JSON: ``{"submitters": [{"name", "priority", "factor", "ceiling", "floor", ...}]}``, where priority is the real user
priority. A record saved from a live cycle has more fields; they are taken as they are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from slotwise.errors import UsageError
from slotwise.matchmaking.engine import Accounting

_LINE = re.compile(r"^\s*([A-Za-z_]+?)(\d*)\s*=\s*(.*?)\s*$")
_PARTS = {"submitters", "remainder_times", "reservations", "entitled"}
_USERPRIO = {
    "ceiling": "ceiling",
    "floor": "floor",
    "accumulatedusage": "accumulated_usage",
    "weightedaccumulatedusage": "weighted_accumulated_usage",
    "resourcesused": "resources_used",
    "weightedresourcesused": "weighted_resources_used",
    "beginusagetime": "begin_usage_time",
    "lastusagetime": "last_usage_time",
}


def parse_accounting(text: str, source: str = "accounting") -> Accounting:
    """The accounting state that a text holds.

    :raises UsageError: names the file and what is wrong with it.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith(("{", "[")):
        return _from_json(text, source)
    accounting = _from_userprio(text)
    if text.strip() and not accounting.records:
        raise UsageError(f"{source} names no submitter", hint="JSON, or what condor_userprio -long prints")
    return accounting


def text_of(data: bytes, source: str) -> str:
    """A file's bytes as text.

    :raises UsageError: when they are no UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not a text: byte {error.start} is not UTF-8") from None


def _from_json(text: str, source: str) -> Accounting:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from None
    known = isinstance(data, dict) and (not data or data.keys() & _PARTS)
    if not known or not isinstance(data.get("submitters", []), list):
        raise UsageError(f"{source} is not an accounting state", hint='{"submitters": [{"name": "user@domain", ...}]}')
    records: dict[str, dict[str, float]] = {}
    for entry in data.get("submitters", []):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise UsageError(f"{source}: a submitter has no name", hint='each needs "name": "user@domain"')
        record = {key: value for key, value in entry.items() if key != "name" and value is not None}
        for key, value in record.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise UsageError(f"{source}: the {key} of {entry['name']} is not a number: {value!r}")
        if "usage" in record:
            record.setdefault("weighted_accumulated_usage", record.pop("usage"))
        records[str(entry["name"])] = record
    try:
        times = {str(name): float(time) for name, time in data.get("remainder_times", {}).items()}
        entitled = {str(name): float(weight) for name, weight in data.get("entitled", {}).items()}
        reservations = tuple(
            (str(slot), str(user), str(job), float(at), float(gives_up_at), bool(given_up))
            for slot, user, job, at, gives_up_at, given_up in data.get("reservations", [])
        )
    except (AttributeError, TypeError, ValueError) as error:
        text = "remainder_times, reservations or entitled"
        raise UsageError(f"{source}: {text} are not what a snapshot holds: {error}") from None
    return Accounting(records, times, reservations, entitled)


def _from_userprio(text: str) -> Accounting:
    entries: dict[str, dict[str, str]] = {}
    block = 0
    for line in text.splitlines():
        if not line.strip():
            block += 1
            continue
        found = _LINE.match(line)
        if found:
            name, number, value = found.groups()
            entries.setdefault(number or f"ad{block}", {})[name.lower()] = value.strip('"')
    records: dict[str, dict[str, float]] = {}
    for entry in entries.values():
        if "name" in entry:
            records[entry["name"]] = _userprio_record(entry)
    return Accounting(records)


def _userprio_record(entry: Mapping[str, str]) -> dict[str, float]:
    record: dict[str, float] = {}
    for attribute, field in _USERPRIO.items():
        if attribute in entry:
            record[field] = _number(entry[attribute])
    factor = _number(entry.get("priorityfactor", "0"))
    if factor >= 1.0:
        record["factor"] = factor
    if "priority" in entry:
        # What is printed is the effective priority.
        record["priority"] = _number(entry["priority"]) / (factor if factor >= 1.0 else 1.0)
    return record


def _number(text: str) -> float:
    """A number as userprio prints it; what is none counts as 0, as there."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def dump_accounting(state: Accounting) -> str:
    """The JSON form of an accounting state, whole."""
    submitters = [{"name": name, **record} for name, record in sorted(state.records.items())]
    data: dict[str, object] = {"submitters": submitters}
    if state.remainder_times:
        data["remainder_times"] = dict(sorted(state.remainder_times.items()))
    if state.reservations:
        data["reservations"] = [list(kept) for kept in state.reservations]
    if state.entitled:
        data["entitled"] = dict(sorted(state.entitled.items()))
    return json.dumps(data, indent=1) + "\n"

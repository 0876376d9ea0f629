"""Snapshots of a cycle: everything it was given, as files that ``slotwise negotiate`` replays.

================  ==========================================================
slots.ads         slot ads, as ``condor_status -long`` prints them
jobs.ads          job or request ads, as ``condor_q -long`` prints them
submitters.ads    submitter ads; missing when jobs.ads lists every job
accounting.json   accounting state before the cycle
config            knobs, in configuration language, expanded
now               epoch seconds
outcome.json      what came out (not read back)
================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from slotwise.errors import UsageError
from slotwise.matchmaking.accounting_file import dump_accounting, parse_accounting, text_of
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Engine, Knobs, read_long
from slotwise.table import AdTable


class CycleInput(Struct, frozen=True):
    """What a cycle is given. ``submitters`` None means that ``requests`` lists every job."""

    slots: AdTable
    requests: AdTable
    submitters: AdTable | None
    knobs: Knobs
    accounting: Accounting
    now: int

    def run(self, engine: Engine | None = None) -> CycleOutcome:
        """Run the cycle."""
        engine = engine or Engine()
        return engine.run(self.slots, self.requests, self.submitters, self.knobs, self.accounting, self.now)


def snapshot_files(given: CycleInput, outcome_json: str | None = None) -> dict[str, bytes]:
    """The files of a snapshot, by name."""
    files = {
        "slots.ads": _long(given.slots),
        "jobs.ads": _long(given.requests),
        "accounting.json": dump_accounting(given.accounting).encode(),
        "config": _config_text(given.knobs.values).encode(),
        "now": f"{given.now}\n".encode(),
    }
    if given.submitters is not None:
        files["submitters.ads"] = _long(given.submitters)
    if outcome_json is not None:
        files["outcome.json"] = outcome_json.encode()
    return files


def read_snapshot(files: Mapping[str, bytes]) -> CycleInput:
    """The input of a cycle from the files of a snapshot.

    :raises UsageError: when a file is missing, or is not what it should be.
    """
    for needed in ("slots.ads", "jobs.ads"):
        if needed not in files:
            raise UsageError(f"the snapshot has no {needed}")
    now = _epoch(text_of(files.get("now", b"0"), "now"))
    submitters = files.get("submitters.ads")
    return CycleInput(
        slots=read_long(files["slots.ads"], now),
        requests=read_long(files["jobs.ads"], now, "job" if submitters is None else "number"),
        submitters=None if submitters is None else read_long(submitters, now),
        knobs=Knobs(parse_knobs(text_of(files.get("config", b""), "config"))),
        accounting=parse_accounting(
            text_of(files.get("accounting.json") or b"{}", "accounting.json"), "accounting.json"
        ),
        now=now,
    )


def _epoch(text: str) -> int:
    try:
        return int(float(text.strip() or 0))
    except (ValueError, OverflowError):
        raise UsageError(f"now is not a time: {text.strip()!r}", hint="epoch seconds, alone in the file") from None


def _long(table: AdTable) -> bytes:
    return table.long_text()


def _config_text(values: Mapping[str, str]) -> str:
    lines = []
    for name, value in sorted(values.items()):
        lines.append(f"{name} = {' '.join(value.split())}\n")
    return "".join(lines)


def parse_knobs(text: str) -> dict[str, str]:
    """Knobs from lines ``NAME = value`` that need no expansion, as a snapshot holds them."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.lstrip().startswith("#"):
            values[name.strip()] = value.strip()
    return values

"""The input of a negotiation cycle, from a saved cycle or from files of ads."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from slotwise.cli.common import classad_host
from slotwise.cli.common.invocation import Invocation
from slotwise.config import load
from slotwise.errors import SlotwiseError, UsageError
from slotwise.matchmaking.accounting_file import parse_accounting, text_of
from slotwise.matchmaking.engine import Accounting, Knobs, knob_values, read_long_file
from slotwise.matchmaking.snapshot import CycleInput, read_snapshot
from slotwise.table import AdTable


def epoch(text: str) -> int:
    """Epoch seconds from a word of the command line; ValueError for text that is not a time."""
    try:
        return int(float(text))
    except OverflowError:
        raise ValueError(text) from None


def read_input(asked: argparse.Namespace, inv: Invocation) -> CycleInput:
    """The input that the options name.

    :raises UsageError: when files are missing.
    """
    if asked.snapshot:
        directory = inv.path(asked.snapshot)
        if not directory.is_dir():
            raise UsageError(f"{asked.snapshot} is not a directory")
        given = read_snapshot({file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()})
        if asked.now is None:
            return given
        return CycleInput(given.slots, given.requests, given.submitters, given.knobs, given.accounting, int(asked.now))
    if not asked.slots or not asked.jobs:
        raise UsageError("--slots FILE and --jobs FILE are needed", hint="or --snapshot DIR")
    now = int(time.time() if asked.now is None else asked.now)
    accounting = Accounting()
    if asked.accounting:
        accounting = parse_accounting(text_of(_read(inv.path(asked.accounting)), asked.accounting), asked.accounting)
    return CycleInput(
        slots=_slots(asked.slots, now, inv),
        requests=_jobs(asked.jobs, now, inv),
        submitters=None,
        knobs=_knobs(asked.config, inv),
        accounting=accounting,
        now=now,
    )


def _ads(name: str, now: int, key: str, inv: Invocation) -> AdTable:
    try:
        return read_long_file(inv.path(name), now, key)
    except OSError as error:
        raise UsageError(f"cannot read {inv.path(name)}: {error.strerror}") from None
    except SlotwiseError as error:
        raise UsageError(f"{name}: {error}", hint="ads as `status -long` and `q -long` print them") from None


def _slots(name: str, now: int, inv: Invocation) -> AdTable:
    """Slot ads; ads of daemons, which `condor_status -any` lists too, are no slots."""
    table = _ads(name, now, "Name", inv)
    table.remove_where('MyType =!= undefined && MyType != "Machine" && MyType != "Slot"')
    _expect(table, name, inv, "slot ad", "slot ads have a Name and the MyType Machine, as `status -long` prints them")
    return table


def _jobs(name: str, now: int, inv: Invocation) -> AdTable:
    table = _ads(name, now, "job", inv)
    _expect(table, name, inv, "job ad", "job ads have a ClusterId, as `q -long` prints them")
    return table


def _expect(table: AdTable, name: str, inv: Invocation, what: str, hint: str) -> None:
    """A file of other ads (the two exchanged, say) is a mistake; an empty one is not."""
    if len(table) == 0 and _read(inv.path(name)).strip():
        raise UsageError(f"{name} has no {what}", hint=hint)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _knobs(name: str | None, inv: Invocation) -> Knobs:
    if name is None:
        return Knobs()
    path = inv.path(name)
    _read(path)
    config = load(path, subsystem="NEGOTIATOR", env={}, cwd=inv.cwd, seed=0)
    classad_host.take_over_from(inv, config, "NEGOTIATOR")
    return Knobs(knob_values(config))

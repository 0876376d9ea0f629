"""``slotwise dag rescue``: the rescue files of a DAG, and which of them it goes on from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import named
from slotwise.cli.render.table import Column, table
from slotwise.dag import leftovers, locate, rescue_edits
from slotwise.errors import HostError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slotwise.cli.common.invocation import Invocation

_COLUMNS = (
    Column("NUMBER", right=True), Column("CREATED"), Column("DONE", right=True),
    Column("FAILED", right=True), Column("FAILED NODES"),
)  # fmt: skip
_NAMED = 5


def main(args: list[str], inv: Invocation) -> int:
    """List them, or choose one."""
    parser = Parser(
        inv,
        "dag rescue",
        "Lists the rescue files of a DAG: when each was written, and how many nodes were done and failed. A DAG that "
        "is submitted again goes on from the last one.",
    )
    named.add_argument(parser)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--use", "-use", metavar="N", type=int, help="go on from this one: later ones become .old")
    chosen.add_argument("--none", "-none", action="store_true", help="begin anew: all of them become .old")
    parser.add_argument("--json", "-json", action="store_true", help="the list for programs")
    options = parser.take(args)
    if options is None:
        return 0
    place = named.place(options.dag, inv)
    files = place.options.files
    most = max(1, inv.knobs().get_int("DAGMAN_MAX_RESCUE_NUM"))
    last = leftovers.last_rescue(files, place.directory, most)
    if options.use is not None or options.none:
        if locate.is_running(place):
            raise UsageError(f"{place.primary} is running", hint="choose a rescue file when it has ended")
        number = 0 if options.none else options.use
        if number and not (place.directory / leftovers.rescue_name(files, number)).exists():
            raise NotFoundError(f"there is no {leftovers.rescue_name(files, number)}")
        try:
            leftovers.put_aside(files, place.directory, number, most)
        except OSError as error:
            raise HostError(f"cannot rename rescue files: {error.strerror}") from None
        inv.out(f"{place.primary} goes on from {leftovers.rescue_name(files, number)}" if number
                else f"{place.primary} begins anew")  # fmt: skip
        return 0
    found = []
    for number in range(1, last + 1):
        path = place.directory / leftovers.rescue_name(files, number)
        try:
            text = path.read_text(errors="surrogateescape")
        except OSError:
            continue
        found.append((number, path, rescue_edits.about(text)))
    if options.json:
        listed = [
            {
                "number": number, "file": str(path), "created": about.created, "done": about.done,
                "failed": about.failed, "is_next": number == last,
            }
            for number, path, about in found
        ]  # fmt: skip
        inv.out(json.dumps(listed))
        return 0
    if not found:
        inv.out(f"{place.primary} has no rescue files: submitted, it runs all its nodes")
        return 0
    rows = [
        (str(number), about.created, str(len(about.done)), str(len(about.failed)), _some(about.failed))
        for number, _, about in found
    ]
    inv.out(table(_COLUMNS, rows).rstrip())
    inv.out(f"Submitted again, {place.primary} goes on from number {last}.")
    return 0


def _some(names: Sequence[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")

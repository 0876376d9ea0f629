"""``slotwise watch``: the pool, its users and the caller's jobs, live in a terminal.

What is asked of the daemons is counts alone, so that it costs the same for a pool of any size.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import grpc
from rich.console import Console
from rich.live import Live

from slotwise.classad.values import whole
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.render.pool_screen import Screen, User, columns_of, drawn
from slotwise.errors import SlotwiseError, UsageError
from slotwise.model.batches import BATCH_ATTRIBUTES, batches
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, negotiator_pb2_grpc, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

_OPTIONS = [
    Option("help", 1), Option("once", 1), Option("allusers", 3), Option("refresh", 3, 1), Option("name", 1, 1),
    Option("pool", 1, 1),
]  # fmt: skip
USAGE = """usage: slotwise watch [options]
  Cores by state, who uses them against the share that is due, and your jobs by batch, until Ctrl-C.
  -refresh SECONDS    how often it asks (2)
  -once               print it once, as where there is no terminal
  -allusers           everybody's jobs
  -name NAME, -pool HOST:PORT    another access point, another pool
  `slotwise top` tells what a daemon does with its time, `slotwise watch-q` follows jobs by their event logs."""
_REFRESH_S = 2.0
#: Rows of which the largest are chosen for the screen.
_ANSWER_S = 20


def main(args: list[str], inv: Invocation) -> int:
    """Show, again and again."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is not an option", hint="--help lists the options")
    every_s = _seconds(parsed.value("refresh"))
    pool = inv.aimed(parsed.value("pool"))
    asked = _Asked(pool, inv.aimed(parsed.value("pool"), parsed.value("name")), mine=not parsed.has("allusers"))
    if parsed.has("once") or not inv.is_terminal:
        found = asked.look()
        width = inv.width if inv.is_terminal else columns_of(found)
        console = Console(file=as_it_is(inv.stdout), width=width, highlight=False, no_color=not inv.has_colours)
        console.print(drawn(found, width, None))
        return 0
    console = Console(file=as_it_is(inv.stdout), highlight=False, no_color=not inv.has_colours)
    last = Screen()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                try:
                    last = asked.look()
                except SlotwiseError as error:
                    last = last.with_problem(str(error))
                live.update(drawn(last, console.width, console.height), refresh=True)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return 0


def _seconds(text: str | None) -> float:
    if text is None:
        return _REFRESH_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.2 <= seconds <= 3600:
        raise UsageError(f"-refresh {text} is not a number of seconds", hint="0.2 to 3600")
    return seconds


class _Asked:
    """Asks the daemons. ``mine``: the caller's jobs alone."""

    def __init__(self, pool: Invocation, point: Invocation, *, mine: bool) -> None:
        self._pool, self._point, self._mine = pool, point, mine

    def look(self) -> Screen:
        """What is on the screen now.

        :raises SlotwiseError: when a daemon does not answer.
        """
        try:
            collector = self._pool.reading(collector_pb2_grpc.CollectorStub, "collector")
            negotiator = self._pool.reading(negotiator_pb2_grpc.NegotiatorStub, "negotiator")
            schedd = self._point.stub(schedd_pb2_grpc.ScheddStub, "schedd")
            counted = common_pb2.AdQuery(kind="Machine", form=common_pb2.AdQuery.COUNT, count_by=["State", "Cpus"])
            slots = _ads(collector.Query(counted, timeout=_ANSWER_S))
            accounts = _ads(negotiator.Accounting(common_pb2.AdQuery(kind="Accounting"), timeout=_ANSWER_S))
            query = schedd_pb2.JobQuery(mine_only=self._mine)
            query.query.form = common_pb2.AdQuery.COUNT
            query.query.count_by.extend(BATCH_ATTRIBUTES)
            jobs = _ads(schedd.Query(query, timeout=_ANSWER_S))
        except grpc.RpcError as error:
            raise to_error(error, peer="the pool") from None
        cores: dict[str, int] = {}
        for row in slots:
            state = str(row.get("State"))
            cores[state] = cores.get(state, 0) + max(0, whole(row.get("Cpus"))) * whole(row.get("Count"))
        return Screen(
            time.time(), cores, sum(whole(row.get("Count")) for row in slots), _users(accounts), batches(jobs),
            whose="your jobs" if self._mine else "everybody's jobs",
        )  # fmt: skip


def _ads(chunks: Iterable[common_pb2.AdChunk]) -> list[dict[str, object]]:
    return [dict(ad) for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _users(accounts: list[dict[str, object]]) -> tuple[User, ...]:
    """Submitters that use or want something, with what is due to each by its priority."""
    those = [
        (str(ad.get("Name")), _number(ad.get("WeightedResourcesUsed")), max(1e-9, _number(ad.get("Priority")) or 1.0))
        for ad in accounts
        if ad.get("IsAccountingGroup") is not True
        and (_number(ad.get("WeightedResourcesUsed")) or _number(ad.get("Requested")))
    ]
    whole_weight = sum(1 / priority for _, _, priority in those)
    users = [User(name, used, 1 / priority / whole_weight, priority) for name, used, priority in those]
    return tuple(sorted(users, key=lambda user: (-user.cores, user.name)))

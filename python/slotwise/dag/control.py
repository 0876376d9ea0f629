"""Halts a DAG that runs, has it go on, and gives its runner orders for nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from slotwise.client.event_log import EventLog
from slotwise.dag import locate, orders, run_settings
from slotwise.dag.locate import Place
from slotwise.dag.node_log import NodeLog
from slotwise.dag.orders import Do, Order
from slotwise.errors import HostError, NotFoundError, SlotwiseError, UsageError

#: How long answers of a runner are waited for, in seconds.
PATIENCE_S = 20.0
#: The number of an order's entry in the nodes log.
_GENERIC = 8


def halt(place: Place, reason: str = "") -> None:
    """Have a DAG begin no new jobs and PRE scripts, as HTCondor does: by a file. The runner logs the reason.

    :raises UsageError: nothing runs it.
    :raises HostError: the file cannot be made.
    """
    _need_runner(place)
    path = place.beside("halt")
    try:
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(f"{reason}\n" if reason else "")
        fresh.replace(path)  # the runner reads it as soon as it is there
    except OSError as error:
        raise HostError(f"cannot make {path}: {error.strerror}") from None


def resume(place: Place, env: Mapping[str, str], home: Path | None) -> None:
    """Have a DAG that was halted go on.

    :raises UsageError: nothing runs it, HTCondor's condor_dagman runs it, or it is not halted.
    """
    _need_runner(place)
    need_ours(place)
    with contextlib.suppress(FileNotFoundError):
        place.beside("halt").unlink()
    admin, knobs = run_settings.configuration(env, home, "")
    settings = run_settings.settings(place.options, str(place.directory), admin, knobs)
    log = place.nodes_log(settings.nodes_log)
    (given,) = orders.new(place.cluster, Do.RESUME)
    answer = give(place, [given], log).get(given.id, "its runner has not answered yet; the order stands")
    if answer:
        raise UsageError(f"{place.primary} was not resumed: {answer}")


def _need_runner(place: Place) -> None:
    if not locate.is_running(place):
        raise UsageError(f"{place.primary} is not running", hint="`slotwise dag status` says what became of it")


def need_ours(place: Place) -> None:
    """See that a runner takes orders.

    :raises UsageError: HTCondor's condor_dagman runs it.
    """
    if not place.is_ours:
        raise UsageError(
            "HTCondor's condor_dagman runs it, which takes no orders from here",
            hint=f"`slotwise rm {place.cluster or 'ID'}` ends it; submitted again it goes on from its rescue file",
        )


def give(place: Place, given: Iterable[Order], log: Path, patience_s: float = PATIENCE_S) -> dict[str, str]:
    """Give orders, and wait for what becomes of them, by the nodes log.

    :returns: by the ids of orders, why each was refused; "" for one that was carried out; without those that nobody
        has taken within ``patience_s`` seconds, which stand.
    """
    given = list(given)
    orders.give(place.directory / orders.file_name(place.primary), given)
    ids, entries = {one.id for one in given}, NodeLog(lambda _: None)
    with contextlib.suppress(NotFoundError), EventLog(log) as found:
        while not ids <= entries.orders.keys():
            try:
                one = found.next(patience_s)
            except SlotwiseError:  # an entry that is none
                continue
            if one is None:
                break
            if one[0].number == _GENERIC:
                entries.read(one[0])
    return {key: entries.orders[key] for key in ids if key in entries.orders}


__all__ = ["PATIENCE_S", "give", "halt", "need_ours", "resume"]

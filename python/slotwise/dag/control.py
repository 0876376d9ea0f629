"""Halts a DAG that runs, has it go on, and gives its runner orders for nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise import whole_file
from slotwise.client.event_log import EventLog
from slotwise.dag import locate, orders, run_settings
from slotwise.dag.locate import Place
from slotwise.dag.node_log import NodeLog
from slotwise.dag.orders import Do, Order
from slotwise.errors import HostError, NotFoundError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from slotwise.dag.replay import View

#: How long answers of a runner are waited for, in seconds.
PATIENCE_S = 20.0
#: The number of an order's entry in the nodes log.
_GENERIC = 8
_UNANSWERED = "the runner has not answered yet; its order stands"
_LATER = "nothing runs the DAG now; the order is carried out when its job runs again"


def halt(place: Place, reason: str = "") -> None:
    """Have a DAG begin no new jobs and PRE scripts, as HTCondor does: by a file. The runner logs the reason.

    :raises UsageError: nothing runs it.
    :raises HostError: the file cannot be made.
    """
    _need_runner(place)
    path = place.beside("halt")
    try:
        whole_file.write(path, f"{reason}\n" if reason else "", lasts=False)  # the runner reads it at once
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
    answer = give(place, [given], log).get(given.id, _UNANSWERED)
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


class NodesRefusedError(UsageError):
    """An order that some of its nodes cannot follow; none has been given it.

    :ivar refused: why, by the node's name.
    """

    def __init__(self, refused: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"node {name}: {why}" for name, why in refused.items()))
        self.refused = dict(refused)


def order(view: View, do: Do, numbers: Sequence[int]) -> dict[str, str]:
    """Order something of nodes of a DAG that has not ended, and wait for what becomes of it while a runner is there.

    :returns: by the node's name why it was not carried out; "" if it was.
    :raises NodesRefusedError: some nodes cannot follow it.
    :raises UsageError: HTCondor's condor_dagman runs the DAG.
    """
    need_ours(view.place)
    names = [view.run.name(number) for number in numbers]
    if refused := {
        name: why for name, number in zip(names, numbers, strict=True) if (why := view.run.refusal(do, number))
    }:
        raise NodesRefusedError(refused)
    given = orders.new(view.place.cluster, do, names)
    log = view.place.nodes_log(view.settings.nodes_log)
    answers = give(view.place, given, log, PATIENCE_S if view.is_running else 0.0)
    return {one.node: answers.get(one.id, _UNANSWERED if view.is_running else _LATER) for one in given}


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


__all__ = ["PATIENCE_S", "NodesRefusedError", "give", "halt", "need_ours", "order", "resume"]

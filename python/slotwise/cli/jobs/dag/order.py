"""``slotwise dag halt``, ``resume``, ``retry`` and ``skip``: what a user orders of a DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise import whole_file
from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import named
from slotwise.dag import control, leftovers, rescue_edits
from slotwise.dag.control import NodesRefusedError
from slotwise.dag.orders import Do
from slotwise.errors import HostError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.locate import Place
    from slotwise.dag.replay import View


def halt(args: list[str], inv: Invocation) -> int:
    """No new jobs and PRE scripts begin."""
    place = _named(
        "halt",
        "Has a DAG begin no new jobs and PRE scripts. Jobs that run, and POST scripts, go on. When nothing runs any "
        "more the DAG ends with a rescue file, unless it is resumed before.",
        args, inv,
    )  # fmt: skip
    if place is not None:
        control.halt(place)
        inv.out(f"Halted {_shown(place)}")
    return 0


def resume(args: list[str], inv: Invocation) -> int:
    """A halted DAG goes on."""
    place = _named("resume", "Has a DAG that was halted go on.", args, inv)
    if place is not None:
        control.resume(place, inv.env, inv.home.root)
        inv.out(f"Resumed {_shown(place)}")
    return 0


def _named(verb: str, text: str, args: list[str], inv: Invocation) -> Place | None:
    parser = Parser(inv, f"dag {verb}", text)
    named.add_argument(parser)
    options = parser.take(args)
    return None if options is None else named.place(options.dag, inv)


def _shown(place: Place) -> str:
    return f"DAG {place.cluster} [{place.primary}]" if place.cluster else f"DAG [{place.primary}]"


def retry(args: list[str], inv: Invocation) -> int:
    """Nodes that failed run once more."""
    return _nodes(
        Do.RETRY,
        "Runs nodes that failed once more, in a DAG that is running; nodes that could never run for them can again. "
        "In a DAG that has ended, nodes that are done are taken out of its last rescue file, so that the next "
        "submission runs them again; nodes that failed are run again anyway.",
        args, inv,
    )  # fmt: skip


def skip(args: list[str], inv: Invocation) -> int:
    """Nodes count as done."""
    return _nodes(
        Do.SKIP,
        "Has nodes count as done, so that their children can start: nodes that failed or have not begun. In a DAG that "
        "has ended they are marked in its last rescue file.",
        args, inv,
    )  # fmt: skip


def _nodes(do: Do, text: str, args: list[str], inv: Invocation) -> int:
    parser = Parser(inv, f"dag {do}", text)
    named.add_argument(parser)
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="nodes by name; of splices with their names: S+A")
    options = parser.take(args)
    if options is None:
        return 0
    view = named.view(options.dag, inv)
    numbers = [view.number(name) for name in dict.fromkeys(options.nodes)]
    if view.state in ("ended", "not run yet"):
        return _in_rescue_file(do, view, numbers, inv)
    try:
        answers = control.order(view, do, numbers)
    except NodesRefusedError as error:
        for name, why in error.refused.items():
            inv.err(f"{name}: {why}")
        inv.err("Nothing was ordered.")
        return 1
    if not view.is_running:
        inv.out("Ordered; it is carried out when the DAG's job runs again.")
        return 0
    for name, why in answers.items():
        if why:
            inv.err(f"{name}: {why}")
        else:
            inv.out(f"{name}: {'runs once more' if do == Do.RETRY else 'counts as done'}")
    return int(any(answers.values()))


def _in_rescue_file(do: Do, view: View, numbers: list[int], inv: Invocation) -> int:
    """Edit the last rescue file of a DAG that has ended."""
    place = view.place
    if not view.newest_rescue:
        raise UsageError(
            f"{place.primary} has no rescue file: submitted, it runs all its nodes",
            hint="write `DONE NODE` into the DAG file to have it skip one",
        )
    path = place.directory / leftovers.rescue_name(place.options.files, view.newest_rescue)
    names = [view.run.name(number) for number in numbers]
    try:
        text = path.read_text(errors="surrogateescape")
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from None
    made, changed = rescue_edits.skip(text, names) if do == Do.SKIP else rescue_edits.retry(text, names)
    if changed:
        try:
            whole_file.write(path, made)
        except OSError as error:
            raise HostError(f"cannot write {path}: {error.strerror}") from None
    for name in names:
        said = "counts as done" if do == Do.SKIP else "runs"
        already = "" if name in changed else "; it did so already"
        inv.out(f"{name}: {said} when {place.primary} is submitted again ({path.name}){already}")
    return 0

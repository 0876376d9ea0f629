"""Looks for settings that fit their knob, and neither each other nor what there is: accounting groups that nothing
names, shares of slot types that no slot can have, a librarian without a history, expressions about attributes that no
ad has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

import slotwise._native as _native
from slotwise.config.problem import ERROR, WARNING, Problem
from slotwise.config.slot_shares import parse_shares
from slotwise.config.table import find_knob
from slotwise.config.view import Config
from slotwise.errors import ConfigError
from slotwise.model.attribute_names import meant_by

#: What is set for one accounting group, whose name may have dots.
_OF_GROUP = re.compile(
    r"(?:\w+\.)?(GROUP_(?:QUOTA_DYNAMIC|QUOTA|PRIO_FACTOR|ACCEPT_SURPLUS|AUTOREGROUP)_(.+))", re.IGNORECASE
)


def doubts(config: Config, mentioned: Collection[str]) -> Iterator[Problem]:
    """All of them.

    :param mentioned: names, in lower case, that values refer to and that lists of attributes contain.
    """
    yield from _groups(config)
    yield from _quotas(config)
    yield from _slot_types(config)
    yield from _librarian(config)
    yield from _attributes(config, mentioned)


def _groups(config: Config) -> Iterator[Problem]:
    names = {name.lower(): name for name in config.get_list("GROUP_NAMES")}
    for lowered, name in names.items():
        parent = lowered.rpartition(".")[0]
        if parent and parent not in names:
            message = f"GROUP_NAMES has {name} without its parent {parent}: the negotiator ignores the group"
            yield _group_doubt(config, "GROUP_NAMES", message, parent, names)
    for knob, _, _ in config.settings():
        found = _OF_GROUP.fullmatch(knob)
        known = find_knob(found[1]) if found else None
        if found is None or found[2].lower() in names or (known is not None and "<" not in known.name):
            continue
        message = f"{knob} has no effect: GROUP_NAMES does not name the group {found[2]}"
        yield _group_doubt(config, knob, message, found[2], names)


def _quotas(config: Config) -> Iterator[Problem]:
    """Quotas that the negotiator does not take, and those of children that are more than their parent has."""
    given: dict[str, float] = {}
    for name in config.get_list("GROUP_NAMES"):
        fixed, fraction = f"GROUP_QUOTA_{name}", f"GROUP_QUOTA_DYNAMIC_{name}"
        try:
            weight, part = config.find_float(fixed), config.find_float(fraction)
        except ConfigError:
            continue  # it has a problem of its own
        if weight is not None and weight < 0:
            message = f"{fixed} = {weight:g} is no quota: it is taken for none"
            hint = "write how much the group may use, 0 or more"
            yield Problem(WARNING, "config-out-of-range", fixed, message, config.origin(fixed), hint)
        elif weight is None and part is not None and not 0 <= part <= 1:
            message = f"{fraction} = {part:g} is out of range: the negotiator refuses it"
            hint = "write a part of the pool, from 0 to 1"
            yield Problem(ERROR, "config-out-of-range", fraction, message, config.origin(fraction), hint)
        elif weight is not None:
            given[name] = weight
    for parent, quota in given.items():
        of_children = sum(part for name, part in given.items() if name.lower().rpartition(".")[0] == parent.lower())
        if of_children > quota and not config.get_bool("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION"):
            knob = f"GROUP_QUOTA_{parent}"
            message = f"{knob} = {quota:g}, and the groups below {parent} have quotas of {of_children:g} together"
            hint = (
                "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION is false, so they are scaled down: raise it, or lower theirs"
            )
            yield Problem(WARNING, "config-quota-of-children", knob, message, config.origin(knob), hint)


def _group_doubt(config: Config, knob: str, message: str, group: str, names: dict[str, str]) -> Problem:
    """``group``: one that GROUP_NAMES lacks; ``names``: those that it has, by their names in lower case."""
    alike = [name for name in names if name.count(".") == group.count(".")]
    near = get_close_matches(group.lower(), alike, n=1, cutoff=0.75)
    hint = f"did you mean {names[near[0]]}?" if near else f"add {group} to GROUP_NAMES"
    return Problem(WARNING, "config-no-such-group", knob, message, config.origin(knob), hint)


def _slot_types(config: Config) -> Iterator[Problem]:
    tags = {tag for family in ("", "INVENTORY_") for _, tag in config.members(f"MACHINE_RESOURCE_{family}<RESOURCE>")}
    tags |= {"GPUs", *config.get_list("MACHINE_RESOURCE_NAMES")}  # GPUs are found when the startd begins
    for knob, _ in config.members("SLOT_TYPE_<N>"):
        text = config.get(knob)
        try:
            parse_shares("auto" if text is None else text, tags, key=knob)
        except ConfigError as error:
            hint = error.hint or ""
            yield Problem(ERROR, "config-bad-slot-type", knob, error.message, config.origin(knob), hint)
    yield from _untyped_slots(config)


def _untyped_slots(config: Config) -> Iterator[Problem]:
    """Numbers of slots of types that nothing describes."""
    for knob, number in config.members("NUM_SLOTS_TYPE_<N>"):
        if number.isdecimal() and int(number) > 1 and config.get(f"SLOT_TYPE_{number}") is None:
            message = f"{knob} is set, and SLOT_TYPE_{number} is not: each of its slots gets an equal share"
            hint = f"set SLOT_TYPE_{number} to what such a slot has"
            yield Problem(WARNING, "config-no-slot-type", knob, message, config.origin(knob), hint)


def _librarian(config: Config) -> Iterator[Problem]:
    daemons = {name.upper() for name in config.get_list("DAEMON_LIST")}
    for knob in ("HISTORY", "LIBRARIAN_DATABASE"):
        if "LIBRARIAN" in daemons and not (config.get(knob) or "").strip():
            message = f"DAEMON_LIST has LIBRARIAN, which has nothing to do: {knob} is empty"
            hint = f"set {knob}, or take LIBRARIAN out"
            yield Problem(WARNING, "config-no-library", knob, message, config.origin(knob), hint)
    try:
        high, low = (config.get_float(f"LIBRARIAN_{name}_WATER_MARK") for name in ("HIGH", "LOW"))
        size = config.get_int("LIBRARIAN_MAX_DATABASE_SIZE")
    except ConfigError:
        return  # it has a problem of its own
    for knob, mark in (("LIBRARIAN_HIGH_WATER_MARK", high), ("LIBRARIAN_LOW_WATER_MARK", low)):
        if not 0 <= mark <= 1:
            yield _library_error(config, knob, f"{knob} = {mark:g} is out of range", "write a part, from 0 to 1")
    if 0 <= high < low <= 1:
        knob = "LIBRARIAN_LOW_WATER_MARK"
        message = f"{knob} = {low:g} is above LIBRARIAN_HIGH_WATER_MARK = {high:g}"
        yield _library_error(config, knob, message, "the library is reduced from the high mark to the low one")
    if size <= 0:
        knob = "LIBRARIAN_MAX_DATABASE_SIZE"
        yield _library_error(config, knob, f"{knob} = {size} is out of range", "write a size in bytes")


def _library_error(config: Config, knob: str, message: str, hint: str) -> Problem:
    return Problem(ERROR, "config-out-of-range", knob, message, config.origin(knob), hint)


def _attributes(config: Config, mentioned: Collection[str]) -> Iterator[Problem]:
    own = {name.rpartition(".")[2].lower() for name, _, _ in config.settings()}
    for name, _, origin in config.settings():
        knob = find_knob(name)
        if knob is None or knob.type != "expression" or not knob.used or origin.template is not None:
            continue
        try:
            read = _native.ExprTree(config.get(name) or "", old=True).references()
        except (ConfigError, SyntaxError, ValueError):
            continue  # it has a problem of its own
        for attribute in sorted({*read.my, *read.target, *read.bare}):
            lowered = attribute.lower()
            if lowered in own or lowered in mentioned:
                continue
            if (meant := meant_by(attribute)) is not None:
                message = f"{name} asks for {attribute}, which no ad has unless somebody adds it"
                hint = f"did you mean {meant}?"
                yield Problem(WARNING, "config-unknown-attribute", name, message, origin, hint)

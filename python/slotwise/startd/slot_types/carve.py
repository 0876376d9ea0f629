"""Carving dynamic slots out of a partitionable one: amounts, devices, names.

Source: manual, "Partitionable and Dynamic Slots". The request's amounts come evaluated (and rounded by
MODIFY_REQUEST_EXPR_*) from
:mod:`slotwise.startd.policy.consumption`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct
from msgspec.structs import replace

from slotwise.model.resources import Resources


class NotCarved(Struct, frozen=True):
    """Why no slot could be carved."""

    reason: str


def carve(
    free: Resources,
    wanted: Resources,
    *,
    proportional_swap_of: int = 0,
    suits: Callable[[str, str], bool] | None = None,
) -> Resources | NotCarved:
    """What a dynamic slot takes out of ``free`` for a request of ``wanted``, devices named; or why it cannot.

    ``proportional_swap_of``: with PROPORTIONAL_SWAP_ASSIGNMENT, the partitionable slot's memory in MiB, which swap is
    shared by. ``suits(tag, device)`` is the job's ``Require<tag>``.
    """
    if wanted.memory_mib <= 0:
        return NotCarved("the request names no memory")
    short = free.shortfall(wanted)
    if short is not None:
        return NotCarved(f"not enough {short} is left")
    devices: dict[str, tuple[str, ...]] = {}
    for tag, amount in wanted.custom.items():
        if not free.devices.get(tag) or amount <= 0:
            continue
        fitting = [name for name in free.devices[tag] if suits is None or suits(tag, name)]
        if len(fitting) < amount:
            return NotCarved(f"not enough {tag} devices suit the request")
        devices[tag] = tuple(fitting[: int(amount)])
    shared: dict[str, tuple[str, ...]] = {}
    for tag, names in free.shared.items():
        amount = wanted.custom.get(tag, 0)
        shared[tag] = tuple(name for name in names if suits is None or suits(tag, name))[: int(amount)]
        if len(shared[tag]) < amount:
            return NotCarved(f"not enough {tag} devices suit the request")
    custom = {tag: amount for tag, amount in wanted.custom.items() if tag not in free.shared}
    swap = 0
    if proportional_swap_of > 0:
        swap = free.swap_kib * wanted.memory_mib // proportional_swap_of
    return replace(wanted, custom=custom, devices=devices, shared=shared, swap_kib=min(swap, free.swap_kib))


def lowest_free(taken: Collection[int]) -> int:
    """The lowest number from 1 up that is not ``taken``: the M of ``slot1_M``."""
    number = 1
    while number in taken:
        number += 1
    return number

"""Ads at the starter's edge: packs in and out, text for the job to read, attributes evaluated."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.classad.long_form import long_form
from slotwise.classad.values import Value
from slotwise.errors import AdSyntaxError
from slotwise.execution.job_view import Lookup
from slotwise.table import pack_ads, unpack_ads


def unpack_one(pack: bytes) -> ClassAd:
    """The one ad of a pack; an empty pack is an empty ad.

    :raises AdSyntaxError: when the pack holds no ad.
    """
    if not pack:
        return ClassAd({})
    ads = unpack_ads(pack)
    if not ads:
        raise AdSyntaxError("a pack without an ad where one was expected")
    return ads[0]


def pack_one(attributes: ClassAd | Mapping[str, Value]) -> bytes:
    """A pack of one ad."""
    return pack_ads([attributes])


def lookup(ad: ClassAd, target: ClassAd | None = None) -> Lookup:
    """Evaluates attributes of ``ad``; undefined and error come as None."""

    def value(name: str) -> object:
        found = ad.eval(name, target) if target is not None else ad.eval(name)
        return None if isinstance(found, SpecialValue) else found

    return value


def evaluate(expression: ExprTree, machine: ClassAd, job: ClassAd | None) -> object:
    """An expression of the configuration, with the machine as MY and the job as TARGET; None if it has no value."""
    found = expression.eval(machine, job)
    return None if isinstance(found, SpecialValue) else found


def text(ad: ClassAd) -> str:
    """``Name = value`` lines, as `.job.ad` and `.machine.ad` have them and hooks read them."""
    return long_form(ad) or "\n"


def memory_usage_expression() -> ExprTree:
    """MemoryUsage in MiB, from ResidentSetSize in KiB (MEMORY_USAGE_METRIC)."""
    return ExprTree("((ResidentSetSize + 1023) / 1024)")

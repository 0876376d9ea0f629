"""Calls of hooks that outlive the startd: which hook, for which slot, with what on standard input.

The journal has each from before its program starts until its outcome is in the journal, too. A startd that was killed
finds them again: it waits for the hook that fetches, and runs the others once more, with the same ClaimId.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.startd.slot.states import Cause

FETCH_WORK, REPLY_FETCH, EVICT_CLAIM = "FETCH_WORK", "REPLY_FETCH", "EVICT_CLAIM"

_KNOBS = {
    FETCH_WORK: "<KEYWORD>_HOOK_FETCH_WORK",
    REPLY_FETCH: "<KEYWORD>_HOOK_REPLY_FETCH",
    EVICT_CLAIM: "<KEYWORD>_HOOK_EVICT_CLAIM",
}

#: Between the two ads on a hook's standard input.
_DASHES = "-----\n"


class HookCall(Struct, frozen=True):
    """One call of ``<keyword>_HOOK_<hook>``. ``parent``: the partitionable slot of a dynamic one."""

    call_id: str
    hook: str
    slot_name: str
    keyword: str
    given: bytes
    arguments: tuple[str, ...] = ()
    parent: str = ""

    @property
    def knob(self) -> str:
        """The knob that names the program."""
        return knob_of(self.keyword, self.hook)


def knob_of(keyword: str, hook: str) -> str:
    """The knob that names the program of a hook."""
    return _KNOBS[hook].replace("<KEYWORD>", keyword.upper())


def slot_text(slot_ad: ClassAd) -> bytes:
    """What the hook that fetches is given."""
    return _bytes(long_form(slot_ad))


def two_ads(job_ad: ClassAd, slot_ad: ClassAd, claim_id: str = "") -> bytes:
    """What the other hooks are given: the job's ad, a line of dashes, the slot's ad, with the ClaimId of work that has
    one."""
    claim = long_form(ClassAd({"ClaimId": claim_id})) if claim_id else ""
    return _bytes(f"{long_form(job_ad)}{_DASHES}{long_form(slot_ad)}{claim}")


def with_cause(job_ad: ClassAd, cause: Cause) -> ClassAd:
    """The job's ad with the reason for which its claim ends."""
    ad = ClassAd({})
    ad.update(job_ad)
    ad.update({"VacateReason": cause.reason, "VacateReasonCode": cause.code, "VacateReasonSubCode": cause.subcode})
    return ad


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""The messages of startds about claims, as values of our own; :mod:`slotwise.schedd.claims.convert` makes them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.schedd.lifecycle.claim_states import EndedByStartd


class GrantedSlot(Struct, frozen=True):
    """A slot that was claimed; its ad packed."""

    claim_id: str
    slot_name: str
    slot_ad: bytes


class ClaimsGranted(Struct, frozen=True):
    """The answer to the request ``serial``. What is left of a partitionable slot can be claimed by another id."""

    serial: int
    claim_id: str
    slots: tuple[GrantedSlot, ...]
    leftover_claim_id: str = ""
    leftover_slot_ad: bytes = b""


class ClaimRefused(Struct, frozen=True):
    """The answer to the request ``serial``."""

    serial: int
    claim_id: str
    reason: str
    code: int = 0


class KnownClaim(Struct, frozen=True):
    """A claim that a startd has. ``run_id``: the run there, or ""; the slot's ad, if it has changed, packed."""

    run_id: str
    activity: str
    slot_ad: bytes = b""


class ClaimsKnown(Struct, frozen=True):
    """Which of the claims of the hello live, by id; all others are gone. ``startd``: who says so, by its name."""

    claims: Mapping[str, KnownClaim] = field(default_factory=dict)
    startd: str = ""


class KeptAlive(Struct, frozen=True):
    """The answer to a keep-alive: claims that the startd does not know."""

    unknown: tuple[str, ...] = ()


class RunActivated(Struct, frozen=True):
    """The claim is activated; its run goes to the starter at this address."""

    claim_id: str
    run_id: str
    starter: str


class ActivationRefused(Struct, frozen=True):
    """The run is not started."""

    claim_id: str
    run_id: str
    reason: str
    code: int


class SlotChanged(Struct, frozen=True):
    """The slot has another state or activity. ``run_id``: the run that this is about."""

    claim_id: str
    state: str
    activity: str
    run_id: str

    @property
    def retires(self) -> bool:
        """Whether the startd is taking the slot back."""
        return self.state == "Preempting" or self.activity in ("Retiring", "Vacating", "Killing")


class ClaimTaken(Struct, frozen=True):
    """The startd has ended the claim."""

    claim_id: str
    cause: EndedByStartd


StartdMessage = (
    ClaimsGranted | ClaimRefused | ClaimsKnown | KeptAlive | RunActivated | ActivationRefused | SlotChanged | ClaimTaken
)

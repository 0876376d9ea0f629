"""The knobs of claims and of the runs on them."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.schedd.policy.cool_down import CoolDown
from slotwise.schedd.policy.start import StartPolicy


class ClaimSettings(Struct, frozen=True):
    """The settings of claims and runs."""

    schedd_name: str
    address: str
    lease_s: int = 2400
    alive_interval_s: int = 300
    want_leftovers: bool = False
    machine_attrs: tuple[str, ...] = ("Cpus", "SlotWeight")
    machine_attrs_length: int = 1
    jobs_running_most: int = 10_000
    #: START_VANILLA_UNIVERSE.
    start_vanilla: StartPolicy = StartPolicy(None)
    #: JOB_START_COUNT and JOB_START_DELAY (seconds).
    start_count: int = 1
    start_delay_s: float = 0.0
    #: MAX_NEXT_JOB_START_DELAY (seconds).
    next_start_delay_most_s: float = 600.0
    #: SLOTWISE_REFUSED_MATCH_DELAY (seconds).
    refused_match_s: float = 20.0
    #: SYSTEM_ON_VACATE_COOL_DOWN.
    cool_down: CoolDown = field(default_factory=CoolDown)
    #: DEDICATED_SCHEDULER_USE_FIFO.
    dedicated_fifo: bool = True
    #: UNUSED_CLAIM_TIMEOUT (seconds).
    unused_claim_s: int = 600
    #: SLOTWISE_UNKNOWN_OWNER_ACCOUNT: whose rights on files jobs of owners without an account have.
    fallback_account: str = "nobody"

"""Knobs of jobs that run on the access point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from slotwise.schedd.local.keeper_spec import LocalLimits
from slotwise.schedd.local.start_rules import StartRules
from slotwise.schedd.policy.cool_down import CoolDown


class LocalSettings(Struct, frozen=True):
    """``control``: SLOTWISE_CONTROL_DIR. ``execute``: LOCAL_UNIV_EXECUTE."""

    execute: Path
    control: str = ""
    rules: StartRules = StartRules()
    limits: LocalLimits = LocalLimits()
    #: Of jobs of the local universe.
    cool_down: CoolDown = CoolDown()
    #: Of jobs of the scheduler universe that fail (SCHEDULER_UNIVERSE_COOL_DOWN_DURATION), in seconds.
    failure_cool_down_s: float = 300.0
    least_uid: int = 1000
    base_cgroup: str = ""
    cgroup_version: str = "auto"
    cgroup_without_root: bool = False
    #: Environment for HTCondor's condor_dagman.
    dagman: Mapping[str, str] = field(default_factory=dict)

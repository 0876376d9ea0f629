"""The expression that must have a value: IS_OWNER. A startd that cannot tell whose machine it is does not run.

Source: manual, "condor_startd Policy Configuration". The other knobs have a meaning when they are
UNDEFINED: START waits for a job, SUSPEND, CONTINUE, PREEMPT, KILL and WANT_* count as false.
"""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Value, write
from slotwise.errors import ConfigError
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.settings import Settings


def require(host: HostState, ads: SlotAds, now: float) -> None:
    """Check that IS_OWNER is a truth value on every slot, as it is now.

    :raises ConfigError: when it is not; names slot, expression and value.
    """
    for record in host.slots:
        _check(host.settings, record, ads.overlay(record, record.slot, now), now)


def require_of(settings: Settings, host: HostState, ads: SlotAds, now: float) -> None:
    """As :func:`require`, for settings that are not in force yet.

    :raises ConfigError: when IS_OWNER would not be a truth value on some slot.
    """
    for record in host.slots:
        ad = ClassAd()
        write(ad, ads.attributes(record, now, settings))
        _check(settings, record, ad, now)


def _check(settings: Settings, record: SlotRecord, ad: ClassAd, now: float) -> None:
    policy = settings.policy(record.slot_id, record.type_number)
    value = policy.value("IS_OWNER", ad, record.job.ad if record.job else None, now)
    if not isinstance(value, bool | int | float):
        raise _without_truth(record.name, policy.texts["IS_OWNER"], value)


def _without_truth(name: str, text: str, value: Value) -> ConfigError:
    found = "has no value (UNDEFINED or ERROR)" if value is None else f"is {value!r}, not true or false"
    return ConfigError(
        f"IS_OWNER = {text} {found} for {name}",
        hint="use attributes that every slot has, or =?= and =!=, which always give true or false",
        key="IS_OWNER",
    )

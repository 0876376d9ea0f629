"""The expression that must have a value: IS_OWNER. A startd that cannot tell whose machine it is does not run.

Source: manual, "condor_startd Policy Configuration". The other knobs have a meaning when they are
UNDEFINED: START waits for a job, SUSPEND, CONTINUE, PREEMPT, KILL and WANT_* count as false.
"""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Value, write
from slotwise.errors import ConfigError
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.settings import Settings


def require(point: ExecutionPoint, now: float) -> None:
    """Check that IS_OWNER is a truth value on every slot, as it is now.

    :raises ConfigError: when it is not; names slot, expression and value.
    """
    for h in point.holdings.values():
        policy = point.settings.policy(h.slot_id, h.type_number)
        value = policy.value("IS_OWNER", h.ad, h.job.ad if h.job else None, now)
        _judge(h.name, policy.texts["IS_OWNER"], value)


def require_of(point: ExecutionPoint, settings: Settings, now: float) -> None:
    """As :func:`require`, for settings that are not in force yet.

    :raises ConfigError: when IS_OWNER would not be a truth value on some slot.
    """
    former = point.settings, point.machine
    point.settings, point.machine = settings, {**point.machine, **settings.machine}
    try:
        for h in point.holdings.values():
            ad = ClassAd()
            write(ad, point.attributes(h, now))
            policy = settings.policy(h.slot_id, h.type_number)
            value = policy.value("IS_OWNER", ad, h.job.ad if h.job else None, now)
            _judge(h.name, policy.texts["IS_OWNER"], value)
    finally:
        point.settings, point.machine = former


def _judge(name: str, text: str, value: Value) -> None:
    if isinstance(value, bool | int | float):
        return
    found = "has no value (UNDEFINED or ERROR)" if value is None else f"is {value!r}, not true or false"
    raise ConfigError(
        f"IS_OWNER = {text} {found} for {name}",
        hint="use attributes that every slot has, or =?= and =!=, which always give true or false",
        key="IS_OWNER",
    )

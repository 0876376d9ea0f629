"""What the accountant decides besides a cycle: settings of submitters, leases on them, corrections of usage. Pure.

The arithmetic of priorities (decay, charging) is the cycle's. Rules: manual, "User Priorities and Negotiation";
commands of ``condor_userprio``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.errors import BusyError, NotFoundError, UsageError
from slotwise.matchmaking.engine import Reservation
from slotwise.matchmaking.rows import Record

#: Settings that can be leased, each with the value that means "never set".
SETTINGS: dict[str, float | None] = {"factor": None, "ceiling": -1, "floor": 0}
_MINIMUM = {"factor": 1.0, "ceiling": -1.0, "floor": 0.0}
MIN_PRIORITY = 0.5
#: The largest number that an edit accepts: sums and products of such numbers stay finite.
_MOST = 1e15

#: An account that is edited.
Account = dict[str, float | None]


class Accounts(Struct):
    """Accounting state: records by submitter or group, leases by (name, setting), remainder times by group, and
    slots reserved for large requests."""

    records: dict[str, Account] = field(default_factory=dict)
    leases: dict[tuple[str, str], tuple[float | None, float]] = field(default_factory=dict)
    remainder_times: dict[str, float] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    #: What submitters were entitled to hold after the last cycle, while others waited; not kept across a restart.
    entitled: dict[str, float] = field(default_factory=dict)

    def take_over(self, before: Mapping[str, Record], after: Mapping[str, Record]) -> None:
        """Adopt the records that a cycle made of those it was given, ``before``; edits made meanwhile stay."""
        edited, self.records = self.records, {name: dict(record) for name, record in after.items()}
        for name in edited.keys() | before.keys():
            given, now = before.get(name, {}), edited.get(name)
            if now is None:
                self.records.pop(name, None)
                continue
            for key in (key for key in now.keys() | given.keys() if now.get(key) != given.get(key)):
                record = self.records.setdefault(name, {})
                if key in now:
                    record[key] = now[key]
                else:
                    record.pop(key, None)

    def record(self, name: str, now: float) -> Account:
        """The record of ``name``, which is created if there is none."""
        found = self.records.get(name)
        if found is None:
            found = self.records[name] = {"priority": MIN_PRIORITY, "last_update": int(now)}
        return found

    def set(self, name: str, setting: str, value: float, now: float, duration_s: int = 0) -> None:
        """Set factor, ceiling or floor; with a duration, the former value returns when it ends.

        :raises UsageError: for a value out of range.
        :raises BusyError: the setting is already leased.
        """
        _check_name(name)
        _check_number(value)
        if value < _MINIMUM[setting]:
            raise UsageError(f"a {setting} of {value:g} is too small", hint=f"the least is {_MINIMUM[setting]:g}")
        if setting != "factor" and value != int(value):
            raise UsageError(f"a {setting} is a whole number, not {value:g}")
        if duration_s < 0:
            raise UsageError("a lease lasts longer than nothing", hint="give a duration in seconds above 0")
        self.end_leases(now)  # a lease that is over does not block, although no cycle has ended it yet
        record = self.record(name, now)
        key = (name, setting)
        if duration_s:
            if key in self.leases:
                raise BusyError(
                    f"a lease of the {setting} of {name} is already in effect",
                    hint=f"cancel that lease first (-cancel{setting}lease)",
                    retry_after_s=self.leases[key][1] - now,
                )
            self.leases[key] = (record.get(setting), now + duration_s)
        else:
            self.leases.pop(key, None)
        record[setting] = value if setting == "factor" else int(value)

    def cancel_lease(self, name: str, setting: str) -> None:
        """Restore the former value now.

        :raises NotFoundError: there is no such lease.
        """
        lease = self.leases.pop((name, setting), None)
        if lease is None:
            what = "priority-factor" if setting == "factor" else setting
            raise NotFoundError(f"{name} has no {what} lease")
        self._restore(name, setting, lease[0])

    def end_leases(self, now: float) -> list[tuple[str, str]]:
        """Restore the former values of leases that are over; returns those leases."""
        over = [key for key, (_, ends_at) in self.leases.items() if ends_at <= now]
        for name, setting in over:
            self._restore(name, setting, self.leases.pop((name, setting))[0])
        return over

    def _restore(self, name: str, setting: str, former: float | None) -> None:
        record = self.records.get(name)
        if record is None:
            return
        if former is None:
            record.pop(setting, None)
        else:
            record[setting] = former

    def set_priority(self, name: str, value: float, now: float) -> None:
        """Set the real priority; not less than 0.5."""
        _check_name(name)
        _check_number(value)
        if value < 0:
            raise UsageError(f"a priority of {value:g} is too small")
        self.record(name, now)["priority"] = max(MIN_PRIORITY, value)

    def set_usage(self, name: str, field_name: str, value: float, now: float) -> None:
        """Correct ``weighted_accumulated_usage``, ``begin_usage_time`` or ``last_usage_time``."""
        _check_name(name)
        _check_number(value)
        if value < 0:
            raise UsageError(f"{value:g} is less than nothing")
        self.record(name, now)[field_name] = value if field_name.endswith("usage") else int(value)

    def delete(self, name: str) -> None:
        """Forget a submitter.

        :raises NotFoundError: when nothing is known of it.
        """
        if self.records.pop(name, None) is None:
            raise NotFoundError(f"nothing is known of {name}", hint="give the full name, user@domain")
        for setting in SETTINGS:
            self.leases.pop((name, setting), None)

    def reset_usage(self, name: str, now: float) -> None:
        """Set accumulated usage of a submitter to zero, and its begin to now.

        :raises NotFoundError: when nothing is known of it.
        """
        record = self.records.get(name)
        if record is None:
            raise NotFoundError(f"nothing is known of {name}", hint="give the full name, user@domain")
        # The time of last use stays: an active submitter does not vanish from the listing.
        record.update(accumulated_usage=0.0, weighted_accumulated_usage=0.0, begin_usage_time=int(now))

    def reset_all(self, now: float) -> None:
        """Set the accumulated usage of all submitters to zero."""
        for name in self.records:
            self.reset_usage(name, now)


def _check_number(value: float) -> None:
    """Reject NaN, infinity and huge values: on disk they would corrupt every later cycle."""
    if not abs(value) <= _MOST:
        raise UsageError(f"{value:g} cannot be used", hint=f"give a number of at most {_MOST:g}")


def _check_name(name: str) -> None:
    if not name or any(character.isspace() for character in name):
        raise UsageError(f"{name!r} is not the name of a submitter", hint="give the full name, user@domain")

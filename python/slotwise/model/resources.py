"""Amounts of what a machine has, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.errors import InvariantError


class Resources(Struct, frozen=True):
    """An amount of every resource: of a machine, of a slot, or what a request asks for.

    ``custom`` has the amounts of MACHINE_RESOURCE_<tag> resources by tag. Those that are lists of devices have the
    names of the devices in ``devices`` too; then the amount is their number. Devices in ``shared``
    (SHARED_MACHINE_RESOURCE_<tag>) several may have at once: nothing is ever taken of them.
    """

    cpus: float = 0
    memory_mib: int = 0
    disk_kib: int = 0
    swap_kib: int = 0
    custom: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tags(self) -> tuple[str, ...]:
        """All custom resources."""
        return (*self.custom, *self.shared)

    def minus(self, other: Resources) -> Resources:
        """What is left when ``other`` is taken out.

        :raises InvariantError: when a device is taken that is not here.
        """
        devices = dict(self.devices)
        for tag, taken in other.devices.items():
            have = list(devices.get(tag, ()))
            for name in taken:
                if name not in have:
                    raise InvariantError(f"{tag} device {name} is taken from a slot that does not have it")
                have.remove(name)
            devices[tag] = tuple(have)
        return self._combined(other, -1, devices)

    def plus(self, other: Resources) -> Resources:
        """What there is when ``other`` comes back; devices go to the end of the list."""
        devices = dict(self.devices)
        for tag, back in other.devices.items():
            devices[tag] = devices.get(tag, ()) + back
        return self._combined(other, 1, devices)

    def _combined(self, other: Resources, sign: int, devices: Mapping[str, tuple[str, ...]]) -> Resources:
        tags = dict.fromkeys((*self.custom, *other.custom))
        return Resources(
            _tidy(self.cpus + sign * other.cpus),
            self.memory_mib + sign * other.memory_mib,
            self.disk_kib + sign * other.disk_kib,
            self.swap_kib + sign * other.swap_kib,
            {tag: _tidy(self.custom.get(tag, 0) + sign * other.custom.get(tag, 0)) for tag in tags},
            devices,
            self.shared,
        )

    def shortfall(self, wanted: Resources) -> str | None:
        """The first resource of which less is here than ``wanted``, or None when it fits."""
        for name in ("Cpus", "Memory", "Disk", *wanted.custom):
            if wanted.amount(name) > self.amount(name) + 1e-9:
                return name
        return None

    def amount(self, name: str) -> float:
        """How much there is of the resource that :meth:`shortfall` calls ``name``."""
        standard = {"Cpus": self.cpus, "Memory": self.memory_mib, "Disk": self.disk_kib}
        return standard.get(name, self.custom.get(name, len(self.shared.get(name, ()))))

    def without_devices(self) -> Resources:
        """The same amounts with no device names."""
        return replace(self, devices={})

    def nowhere_negative(self) -> bool:
        """Whether every amount is 0 or more."""
        amounts = (self.cpus, self.memory_mib, self.disk_kib, self.swap_kib, *self.custom.values())
        return all(amount >= 0 for amount in amounts)


def _tidy(amount: float) -> float:
    """Whole numbers as int, and no dust from adding fractions of cores."""
    rounded = round(amount, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def total(parts: list[Resources]) -> Resources:
    """The sum of ``parts``."""
    result = Resources()
    for part in parts:
        result = result.plus(part)
    return result

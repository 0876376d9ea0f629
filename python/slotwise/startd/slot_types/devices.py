"""Which devices the text behind the colon of a share chooses.

``GPUs = 1 : "GPU-6a96bd13"`` is a device's id whatever the case of its letters; several ids have commas between them.
The quotes may be left out where the text names a device of the machine, or cannot be an expression. A whole number is a
device's place in the list, from 0. Everything else is an expression over the device's properties: ``Capability >= 8``.

Source: manual, "Introduction to Configuration", GPUs: constraints in slot types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Expression, Value, compiled, truth
from slotwise.errors import ConfigError

_NAME = re.compile(r"[^\s\",<>=!&|?(){}\[\]]+")


class Choice(Struct, frozen=True):
    """A constraint of a slot type on single devices: ``names`` in lower case, or an expression."""

    names: frozenset[str] = frozenset()
    expression: Expression | None = None

    @classmethod
    def of(cls, text: str, devices: Sequence[str], *, key: str) -> Choice:
        """The choice that ``text`` makes among ``devices``.

        :raises ConfigError: for what is neither names nor an expression.
        """
        text = text.strip()
        if text.isdecimal():
            return cls(frozenset(name.lower() for name in devices[int(text) : int(text) + 1]))
        names = _names_in(text)
        if names and (text.startswith('"') or names & {name.lower() for name in devices}):
            return cls(names)
        try:
            return cls(expression=compiled(key, text))
        except ConfigError:
            if names:
                return cls(names)
            raise

    def suits(self, device: str, properties: ClassAd) -> bool:
        """Whether a device is one of those chosen."""
        if self.expression is None:
            return device.lower() in self.names
        return names_device(self.expression.value(properties, None, 0), device)


def names_device(value: Value, device: str) -> bool:
    """Whether a constraint's value chooses a device: its id or a list with it, else as a truth value."""
    if isinstance(value, str):
        return device.lower() in _names_in(value)
    if isinstance(value, list):
        return any(isinstance(item, str) and item.lower() == device.lower() for item in value)
    return truth(value)


def device_attribute(tag: str, name: str) -> str:
    """The attribute that a device's own ad is under: ``GPUs_GPU_d9f2`` for ``GPU-d9f2``."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", f"{tag}_{name}", flags=re.ASCII))


def _names_in(text: str) -> frozenset[str]:
    """The names that a text consists of, in lower case; nothing where it is something else."""
    parts = [part for part in re.split(r"[,\s\"]+", text) if part]
    return frozenset(part.lower() for part in parts) if all(_NAME.fullmatch(part) for part in parts) else frozenset()

"""Rounds attributes whose values grow, so that jobs do not differ in each and get an autocluster of their own.

Manual: SCHEDD_ROUND_ATTR_<name>. ``25%`` rounds up to the next multiple of that part of the value's order of magnitude,
a plain number N up to the next multiple of 10 to the power N. The exact value is kept as ``<name>_RAW``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from slotwise.schedd.jobs.values import Changes

#: Attributes that SCHEDD_ROUND_ATTR_<name> may name.
ROUNDED = (
    "ResidentSetSize",
    "ProportionalSetSizeKb",
    "ImageSize",
    "ExecutableSize",
    "DiskUsage",
    "NumCkpts",
    "MemoryUsage",
    "CpusUsage",
)
#: The steps that are used unless the configuration has others.
DEFAULT_STEPS: Mapping[str, str] = {
    "ResidentSetSize": "25%",
    "ProportionalSetSizeKb": "25%",
    "ImageSize": "25%",
    "ExecutableSize": "25%",
    "DiskUsage": "25%",
    "NumCkpts": "4",
}


#: A percentage up to 1000, or a number of decimal places up to 99.
_STEP = re.compile(r"(1000|\d{1,3}(\.\d+)?)%|\d{1,2}")


def is_step(text: str) -> bool:
    """Whether ``text`` says how to round."""
    return _STEP.fullmatch(text) is not None


def rounded(value: float, step: str = "25%") -> int:
    """``value`` rounded up by ``step`` (see the module text); zero stays."""
    if value <= 0:
        return int(value)
    if step.endswith("%"):
        percent = float(step[:-1])
        if percent <= 0:
            return int(value)
        magnitude = int(math.log10(value / 5) + 1)
        multiple = 10.0**magnitude * percent / 100
        return int(math.ceil(value / multiple) * multiple)
    base = 10 ** min(9, int(step))
    return -(-int(value) // base) * base


def with_rounded(attributes: Changes, steps: Mapping[str, str] = DEFAULT_STEPS) -> Changes:
    """The attributes with those named in ``steps`` rounded and their exact values beside them."""
    found = dict(attributes)
    for name, step in steps.items():
        value = found.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{name}_RAW"] = int(value)
            found[name] = rounded(value, step)
    return found

"""The values in ads as Python sees them: their type, and numbers read from values of any kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from slotwise._native import ClassAd, ExprTree, SpecialValue

Single: TypeAlias = bool | int | float | str | datetime | SpecialValue | ExprTree | ClassAd | None
#: The value of an attribute or expression, and what an attribute may be set to. UNDEFINED and ERROR are the two
#: :class:`SpecialValue`; an attribute that is not a literal is an :class:`ExprTree` until it is evaluated.
Value: TypeAlias = "Single | Sequence[Value] | Mapping[str, Value]"


def number(value: object, otherwise: float = 0.0) -> float:
    """A value as a number, truth as 1 and 0; ``otherwise`` if it is not a number."""
    return float(value) if isinstance(value, int | float) else otherwise


def whole(value: object, otherwise: int = 0) -> int:
    """A value as a whole number, rounded towards 0; ``otherwise`` if it is not a finite number."""
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else otherwise

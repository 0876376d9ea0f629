"""Reading knobs: words, truth, numbers, expressions; with errors that name the knob."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Protocol

from slotwise.classad import ClassAd, ExprTree, new_syntax
from slotwise.errors import AdSyntaxError, ConfigError
from slotwise.startd.evaluate import Expr, compiled


class Knobs(Protocol):
    """What is needed of a configuration."""

    def get(self, name: str) -> str | None:
        """A knob's expanded text, None when undefined."""
        ...


def words(text: str | None) -> list[str]:
    """The words of a list knob."""
    return [word for word in re.split(r"[,\s]+", text or "") if word]


def set_empty(config: Knobs) -> frozenset[str]:
    """The knobs that were set to nothing, in capitals; for :meth:`Knobs.get` they are undefined."""
    settings = getattr(config, "settings", None)
    return frozenset(name.upper() for name, text, _ in settings() if not text.strip()) if settings else frozenset()


def flag(config: Knobs, name: str) -> bool:
    """A truth knob, false when undefined."""
    return flag_text(config.get(name))


def flag_text(text: str | None) -> bool:
    """Whether a knob's text says yes."""
    return (text or "").strip().lower() in ("true", "t", "yes", "y", "1")


def seconds(config: Knobs, name: str, otherwise: float) -> float:
    """A number knob; arithmetic such as ``10 * 60`` is allowed.

    :raises ConfigError: when it is no number.
    """
    text = (config.get(name) or "").strip()
    if not text:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        found = compiled(name, text).value(ClassAd(), None, 0)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ConfigError(f"{name} is {text!r}, not a number", key=name) from None
        value = float(found)
    if math.isnan(value):
        raise ConfigError(f"{name} is not a number", key=name)
    return value


def knob_expression(name: str, text: str) -> Any:
    """A STARTD_ATTRS knob as an attribute.

    :raises ConfigError: when its text is no expression.
    """
    try:
        return literal_or_expression(text)
    except (AdSyntaxError, ValueError) as error:
        raise ConfigError(f"{name} is not an expression: {error}", hint="put texts in quotes", key=name) from None


def device_property(text: str) -> Any:
    """What an inventory says of a device: a value or an expression; what is neither is a string."""
    try:
        return literal_or_expression(text)
    except (AdSyntaxError, ValueError):
        return text


@lru_cache(maxsize=1024)
def literal_or_expression(text: str) -> Any:
    """``True``, numbers and strings as values; the rest as checked expression text."""
    text = new_syntax(text)
    tree = ExprTree(text)
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"-?\d{1,18}", lowered):
        return int(lowered)
    del tree
    return Expr(text.strip())

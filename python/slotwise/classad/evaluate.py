"""Values of policy expressions and ads as the startd reads them: UNDEFINED and ERROR as None, truth and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from slotwise.classad import ClassAd, ExprTree, SpecialValue, new_syntax
from slotwise.classad.values import Value as Value
from slotwise.classad.values import number as number
from slotwise.errors import AdSyntaxError, ConfigError


class Expr(str):
    """The text of an expression, because a plain ``str`` is a string value."""

    __slots__ = ()


class Expression(Protocol):
    """Something that has a value in an ad, against another, at a time."""

    def value(self, my: ClassAd, target: ClassAd | None, now: float) -> Value:
        """The value; None where it is UNDEFINED or ERROR."""
        ...


class Constant:
    """A knob that needs no evaluation."""

    def __init__(self, value: Value) -> None:
        self._value = value

    def value(self, my: ClassAd, target: ClassAd | None, now: float) -> Value:
        """The same for all ads."""
        return self._value


class Compiled:
    """An expression, parsed once."""

    def __init__(self, tree: ExprTree) -> None:
        self._tree = tree

    def value(self, my: ClassAd, target: ClassAd | None, now: float) -> Value:
        """The value in ``my``; attributes that are missing there are looked up in ``target``."""
        try:
            found = self._tree.eval(my, target, now=int(now))
        except ValueError:  # too deep or too long: it has no value
            return None
        return None if isinstance(found, SpecialValue) else found


_LITERALS: Mapping[str, Value] = {"true": True, "false": False, "undefined": None}


def compiled(knob: str, text: str) -> Expression:
    """The expression in a knob's text; literals cost nothing later.

    :raises ConfigError: the text is not an expression; names the knob.
    """
    lowered = text.strip().lower()
    if lowered in _LITERALS:
        return Constant(_LITERALS[lowered])
    if lowered.lstrip("-").isdigit():
        return Constant(int(lowered))
    try:
        return Compiled(ExprTree(text, old=True))
    except (AdSyntaxError, ValueError) as error:
        raise ConfigError(
            f"{knob} is not an expression: {error}",
            hint=f"`slotwise config val {knob.split()[0]}` shows its value",
            key=knob.split()[0],
        ) from None


def attribute(ad: ClassAd, name: str, target: ClassAd | None = None, *, now: float) -> Value:
    """An attribute of ``ad``, evaluated; None where it is missing, UNDEFINED or ERROR."""
    try:
        found = ad.eval(name, target, now=int(now))
    except ValueError:
        return None
    return None if isinstance(found, SpecialValue) else found


@lru_cache(maxsize=4096)
def tree_of(text: Expr) -> ExprTree:
    """The expression of a text; all slots share one."""
    return ExprTree(str(text))


def write(ad: ClassAd, changes: Mapping[str, Value]) -> None:
    """Set attributes of ``ad``; None removes one, :class:`Expr` is parsed."""
    plain = {}
    for name, value in changes.items():
        if value is None:
            ad.pop(name, None)
        else:
            plain[name] = tree_of(value) if isinstance(value, Expr) else value
    if plain:
        ad.update(plain)


def truth(value: Value, otherwise: bool = False) -> bool:
    """A policy value as a truth value: numbers as in HTCondor, no value as ``otherwise``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0
    return otherwise


def knob_expression(name: str, text: str) -> bool | int | Expr:
    """A STARTD_ATTRS knob as an attribute.

    :raises ConfigError: its text is not an expression.
    """
    try:
        return literal_or_expression(text)
    except (AdSyntaxError, ValueError) as error:
        raise ConfigError(f"{name} is not an expression: {error}", hint="put texts in quotes", key=name) from None


def device_property(text: str) -> bool | int | str:
    """A device's property in an inventory: a value or an expression; anything else is a string."""
    try:
        return literal_or_expression(text)
    except (AdSyntaxError, ValueError):
        return text


@lru_cache(maxsize=1024)
def literal_or_expression(text: str) -> bool | int | Expr:
    """``True``, numbers and strings as values; the rest as checked expression text. ``text`` is in the old syntax."""
    text = new_syntax(text)
    tree = ExprTree(text)
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"-?\d{1,18}", lowered):
        return int(lowered)
    del tree
    return Expr(text.strip())

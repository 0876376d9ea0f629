"""Attribute values as the schedd keeps them: plain Python values, and :class:`Expr` for anything that is not a literal.

Changes of a job are a ``dict`` from attribute name to value. ``None`` as a value means: the attribute is removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from slotwise.classad.evaluate import Expr

__all__ = ["Changes", "Evaluate", "Expr", "Value", "decode", "encode", "literal", "quoted"]

Value = bool | int | float | str | Expr | None
Changes = dict[str, Value]
#: Value of an expression as a plain Python value; None for undefined and error.
Evaluate = Callable[[str], object]

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def quoted(text: str) -> str:
    """``text`` as a ClassAd string literal."""
    return f'"{text.translate(_ESCAPES)}"'


def literal(value: Value) -> str:
    """The value as ClassAd text; ``None`` is ``undefined``."""
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "undefined"
    if isinstance(value, float):
        return _real(value)
    return str(value)


def _real(value: float) -> str:
    if value != value:
        return 'real("NaN")'
    if value in (float("inf"), float("-inf")):
        return f'real("{"-" if value < 0 else ""}INF")'
    text = repr(value)
    return text if "." in text or "e" in text else text + ".0"


def encode(changes: Mapping[str, Value]) -> str:
    """Encode changes as JSON text for the store; expressions become ``{"$": text}``."""
    return json.dumps(
        {name: {"$": str(value)} if isinstance(value, Expr) else value for name, value in changes.items()},
        separators=(",", ":"),
    )


def decode(text: str | None) -> Changes:
    """Decode the text of :func:`encode`."""
    if not text:
        return {}
    return {name: Expr(value["$"]) if isinstance(value, dict) else value for name, value in json.loads(text).items()}

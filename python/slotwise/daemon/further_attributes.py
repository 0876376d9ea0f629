"""Attributes that the configuration adds to a daemon's own ad: MASTER_ATTRS, SCHEDD_ATTRS and so on."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ExprTree
from slotwise.classad.evaluate import Expr, knob_expression, tree_of
from slotwise.config import Config


def further_attributes(config: Config, subsystem: str) -> dict[str, bool | int | Expr]:
    """What the configuration adds to a daemon's ad: <SUBSYSTEM>_ATTRS names knobs, whose values the attributes have.

    :raises ConfigError: a value is not an expression.
    """
    knobs = (f"{subsystem}_ATTRS", f"{subsystem}_EXPRS", f"SYSTEM_{subsystem}_ATTRS")
    names = [name for knob in knobs for name in config.get_list(knob)]
    return {name: knob_expression(name, text) for name in names if (text := config.get_str(name).strip())}


def in_ad(further: Mapping[str, bool | int | Expr]) -> dict[str, bool | int | ExprTree]:
    """Such attributes as an ad takes them."""
    return {name: tree_of(value) if isinstance(value, Expr) else value for name, value in further.items()}

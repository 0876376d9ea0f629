"""What the configuration adds to Requirements: clauses by name, and expressions of health."""

from __future__ import annotations

import logging
import re

from slotwise.classad.evaluate import Expr, Value, knob_expression
from slotwise.startd.policy.slot_config import SlotConfig

_log = logging.getLogger(__name__)


def clause_names(config: SlotConfig, knob: str) -> tuple[str, ...]:
    """The clauses that a knob adds to Requirements: knobs that are defined; others are ignored, with a log line."""
    names = []
    for name in config.get_list(knob):
        if name.upper() in ("START", "WITHINRESOURCELIMITS", "HEALTHY"):
            continue
        if (config.get(name) or "").strip():
            names.append(name)
        else:
            _log.error("ignoring %s in %s: it is not defined", name, knob)
    return tuple(dict.fromkeys(names))


def health_attributes(config: SlotConfig) -> dict[str, Value]:
    """STARTD_HEALTH_EXPRS: HealthExprs, HealthFactor and Healthy, which is true unless one of them is false.

    The knob is a list of expressions; names of knobs among them become attributes, too.

    :raises ConfigError: when it is not a list of expressions.
    """
    text = config.get_text("STARTD_HEALTH_EXPRS")
    if not text:
        return {}
    plain = config.get_list("STARTD_HEALTH_EXPRS")
    if all(re.fullmatch(r"[A-Za-z_]\w*", word) for word in plain):
        text = ", ".join(plain)
    expressions = knob_expression("STARTD_HEALTH_EXPRS", f"{{{text}}}")
    attributes = {name: knob_expression(name, value) for name in plain if (value := (config.get(name) or "").strip())}
    return {
        **attributes,
        "HealthExprs": expressions,
        "HealthFactor": Expr("sum(HealthExprs) / (1.0 * size(HealthExprs))"),
        "Healthy": Expr(f"min({{{text}, 1}})"),
    }

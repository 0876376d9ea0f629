"""The job transforms of an access point, as its configuration names them.

Manual, "condor_schedd Policy Configuration": JOB_TRANSFORM_NAMES and JOB_TRANSFORM_<NAME>. Pure.
"""

from __future__ import annotations

from slotwise._native import TransformRules
from slotwise.config import Config
from slotwise.errors import ConfigError
from slotwise.model.protected_attributes import NOT_TRANSFORMED
from slotwise.transform.rules import read_rules


def rule_names(config: Config, knob: str) -> list[str]:
    """The rules that a list of names (``JOB_TRANSFORM_NAMES``) gives, each once, in their order."""
    return [name for name in dict.fromkeys(config.get_list(knob)) if name.upper() != "NAMES"]


def knob_of(name: str) -> str:
    """The knob that has the statements of a job transform."""
    return f"JOB_TRANSFORM_{name}"


def read_job_transform(config: Config, name: str, origin: str = "") -> TransformRules | None:
    """The job transform of this name; None when its knob is not defined. ``origin`` is told in messages about it.

    :raises ConfigError: for statements that cannot be carried out, or change what the access point gives.
    """
    knob = knob_of(name)
    text = (config.raw(knob) or "").strip()
    if not text:
        return None
    rule = read_rules(knob, text, origin)
    for line, attribute in rule.writes():
        if attribute.lower() in NOT_TRANSFORMED:
            raise ConfigError(
                f"{knob}, line {line}: a transform may not change {attribute}",
                origin=origin,
                key=knob,
                hint="the access point gives this attribute; leave it out",
            )
    return rule

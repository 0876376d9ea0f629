"""What a daemon finds in its environment besides the master's: <DAEMON>_ENVIRONMENT of the configuration. Pure.

The text is as STARTER_JOB_ENVIRONMENT has it: ``"A=1 B='two words'"``, or ``A=1;B=2`` (manual,
"<DaemonName>_ENVIRONMENT").
"""

from __future__ import annotations

from slotwise.config import Config
from slotwise.errors import UsageError
from slotwise.execution.arguments import environment_either

#: HTCondor's startd starts the starters, which have its environment.
_OVER = {"starter": "startd"}


def of_config(config: Config, daemon: str) -> tuple[dict[str, str], list[str]]:
    """The variables of a daemon, and what is wrong with knobs that are left out for it."""
    found: dict[str, str] = {}
    wrong = []
    for kind in filter(None, (_OVER.get(daemon), daemon)):
        try:
            found |= environment_either(config.get(f"{kind.upper()}_ENVIRONMENT") or "")
        except UsageError as error:
            wrong.append(f"{kind.upper()}_ENVIRONMENT is left out: {error}")
    return found, wrong

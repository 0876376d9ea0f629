"""The knobs of the rooster. Source: manual, "condor_rooster" configuration."""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ExprTree, new_syntax
from slotwise.config import Config
from slotwise.errors import AdSyntaxError, ConfigError, UsageError
from slotwise.execution.arguments import in_double_quotes, split_new


class RoosterRules(Struct, frozen=True):
    """Which machines are woken, in which order, how many at a time, and how (times in seconds)."""

    interval_s: float = 300
    unhibernate: str = "Offline && Unhibernate"
    rank: str = ""
    most: int = 0
    timeout_s: float = 600
    #: The words of ROOSTER_WAKEUP_CMD; none: the rooster sends the packet itself.
    command: tuple[str, ...] = ()


#: HTCondor's own program; where it is not installed, the rooster does its work.
OWN_PROGRAM = "condor_power"


def read(config: Config) -> RoosterRules:
    """The rules of the configuration.

    :raises ConfigError: a knob is not a number, an expression or a command.
    """
    return RoosterRules(
        interval_s=config.get_float("ROOSTER_INTERVAL"),
        unhibernate=_expression(config, "ROOSTER_UNHIBERNATE") or "false",
        rank=_expression(config, "ROOSTER_UNHIBERNATE_RANK"),
        most=config.get_int("ROOSTER_MAX_UNHIBERNATE"),
        timeout_s=max(1.0, config.get_float("ROOSTER_WAKEUP_TIMEOUT")),
        command=words_of(config.get_text("ROOSTER_WAKEUP_CMD")),
    )


def _expression(config: Config, knob: str) -> str:
    try:
        text = new_syntax(config.get_text(knob))
        if text.strip():
            ExprTree(text)
    except (AdSyntaxError, ValueError) as error:
        raise ConfigError(
            f"{knob} is not an expression: {error}", hint=f"`slotwise config val {knob}` shows its value", key=knob
        ) from None
    return text


def words_of(text: str) -> tuple[str, ...]:
    """A command line in double quotes, as `arguments` of a submit description: ``""`` is a quote, ``'a b'`` one word.

    :raises ConfigError: a quote is not closed.
    """
    inner = in_double_quotes(text)
    if inner is None and text.strip().startswith('"'):
        raise _no_command(text, "the double quote has no end")
    try:
        return tuple(split_new(text if inner is None else inner))
    except UsageError:
        raise _no_command(text, "a single quote has no end") from None


def _no_command(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"ROOSTER_WAKEUP_CMD is not a command: {why} in {text}",
        hint="""write it as "/usr/bin/wake -i 'one word'" """.strip(),
        key="ROOSTER_WAKEUP_CMD",
    )

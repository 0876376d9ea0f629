"""The argument parser of commands: the caller's streams, our errors, one dash or two."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


class HelpFormatter(argparse.HelpFormatter):
    """Help that reads the same under every version of Python: 3.13 shortens what stands for an option's value."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return ", ".join(f"{option} {value}" for option in action.option_strings)


class Parser(argparse.ArgumentParser):
    """A parser that writes to the caller's streams and raises our errors instead of leaving the process."""

    def __init__(
        self,
        inv: Invocation,
        name: str,
        description: str,
        formatter_class: type[argparse.HelpFormatter] = HelpFormatter,
        epilog: str | None = None,
    ) -> None:
        super().__init__(
            prog=f"slotwise {name}",
            description=description,
            add_help=False,
            formatter_class=formatter_class,
            epilog=epilog,
        )
        self.color = False  # of Python 3.14, which asks this process's terminal, not the caller's
        self._inv = inv
        self.add_argument("-h", "-help", "--help", action="store_true", help="show this text", dest="help")

    def error(self, message: str) -> NoReturn:
        """Refuse the words of the call."""
        raise UsageError(message, hint=self.format_usage().strip())

    def take(self, args: list[str]) -> argparse.Namespace | None:
        """The parsed words, or None when help was asked for (and given)."""
        if any(word in ("-h", "-help", "--help") for word in args):
            self._inv.out(self.format_help().rstrip())
            return None
        if self._inv.called:  # HTCondor's tools show what their library logs: -debug, -debug:D_FULLDEBUG
            args = [word for word in args if word != "-debug" and not word.startswith("-debug:")]
        return self.parse_args(args)

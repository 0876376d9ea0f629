"""``slotwise config set`` and ``unset``: settings that win over all files, of the pool or of a running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.host import daemon_config
from slotwise.cli.host.config_options import add_daemons, daemon_of, verb_parser
from slotwise.errors import ConfigError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation


def set_(args: list[str], inv: Invocation) -> int:
    """Set knobs of the pool, to stay or until it is started again."""
    return _change(args, inv, "set", "Set knobs of this pool: 'NAME = value'. They win over all files.")


def unset(args: list[str], inv: Invocation) -> int:
    """Take settings of `config set` back."""
    return _change(args, inv, "unset", "Take back what `slotwise config set` made.")


def _change(args: list[str], inv: Invocation, verb: str, description: str) -> int:
    parser = verb_parser(inv, verb, description)
    parser.add_argument("words", nargs="+", metavar="'NAME = value'" if verb == "set" else "NAME")
    parser.add_argument("-runtime", "--runtime", action="store_true", help="only until the pool is started again")
    add_daemons(parser)
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.config import persistent

    if (daemon := daemon_of(options)) is not None:
        return _change_there(options, inv.aimed(options.pool, options.name), verb, daemon)

    for word in options.words:
        name, value = persistent.parse_assignment(word) if verb == "set" else (word.strip(), None)
        former = persistent.change(inv.home, options.subsystem, name, value, runtime=options.runtime)
        if value is not None:
            try:
                _warn_of(inv, options.subsystem, name)
            except SlotwiseError:
                persistent.put_back(inv.home, options.subsystem, former, runtime=options.runtime)
                raise
        inv.out(f"{name} {'set' if value is not None else 'unset'}; `slotwise reconfig` makes daemons take it over")
    return 0


def _change_there(options: Namespace, inv: Invocation, verb: str, daemon: str) -> int:
    """Set a knob of a running daemon."""
    from slotwise.config import persistent

    where = f"the {daemon}" + (f" {options.name}" if options.name else "")
    if options.subsystem:
        raise UsageError("-subsystem is about files of this host", hint=f"{where} sets its own knobs")
    for word in options.words:
        name, value = persistent.parse_assignment(word) if verb == "set" else (word.strip(), None)
        daemon_config.change(inv, daemon, name, value, runtime=options.runtime, peer=where)
        inv.out(f"{name} {'set' if value is not None else 'unset'} in {where}; it takes effect at the next reconfig")
    return 0


def _warn_of(inv: Invocation, subsystem: str | None, name: str) -> None:
    """Say what is doubtful about a setting just made.

    :raises ConfigError: when it is wrong, so that daemons would refuse the configuration.
    """
    from slotwise.config import check, load

    config = load(None, subsystem=subsystem, env=inv.env, home=inv.home)
    for problem in check(config):
        if problem.name.lower() != name.lower():
            continue
        if problem.severity == "error":
            raise ConfigError(f"not set: {problem.message}", hint=problem.hint or None, key=name)
        inv.err(f"WARNING: {problem.message}" + (f" ({problem.hint})" if problem.hint else ""))

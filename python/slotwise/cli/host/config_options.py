"""What the verbs of ``slotwise config`` share: whether files of this host or a running daemon are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config

#: Daemons whose knobs can be read and set while they run.
DAEMONS = ("master", "collector", "negotiator", "schedd", "startd")


def verb_parser(inv: Invocation, verb: str, description: str) -> Parser:
    """A parser with the options of all verbs."""
    parser = Parser(inv, f"config {verb}", description)
    parser.add_argument("-subsystem", "--subsystem", metavar="NAME", help="read as this daemon (STARTD, SCHEDD, ...)")
    parser.add_argument("-local-name", "--local-name", metavar="NAME", help="read as the daemon of this local name")
    parser.add_argument("-config", "--config", metavar="FILE", help="configuration file (default CONDOR_CONFIG)")
    parser.add_argument("-json", "--json", action="store_true", help="JSON for programs")
    return parser


def load_for(options: Namespace, inv: Invocation) -> Config:
    """The configuration of this host that the options mean."""
    from slotwise.config import load

    named = options.config or inv.env.get("CONDOR_CONFIG")
    home = inv.home if inv.env.get("SLOTWISE_HOME") or not named else None
    return load(
        inv.path(options.config) if options.config else None,
        subsystem=options.subsystem,
        local_name=options.local_name,
        env=inv.env,
        home=home,
        cwd=inv.cwd,
    )


def add_daemons(parser: Parser) -> None:
    """Options that name a running daemon, as those of condor_config_val."""
    for daemon in DAEMONS:
        parser.add_argument(f"-{daemon}", f"--{daemon}", action="store_true", help=f"in the {daemon} that runs")
    parser.add_argument("-name", "--name", metavar="NAME", help="in the daemon of this name (default: a master)")
    parser.add_argument("-pool", "--pool", metavar="HOST:PORT", help="in a daemon of the pool with this collector")


def daemon_of(options: Namespace) -> str | None:
    """The kind of daemon that is meant; None: files of this host."""
    named = [daemon for daemon in DAEMONS if getattr(options, daemon)]
    if len(named) > 1:
        raise UsageError(f"-{named[0]} and -{named[1]} exclude each other")
    if named:
        return named[0]
    return "master" if options.name or options.pool else None

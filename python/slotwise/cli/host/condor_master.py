"""``condor_master``: the daemons of this host, as HTCondor's start scripts and test harnesses begin them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.cli.common.options import Option, parse
from slotwise.errors import HostError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

_OPTIONS = [
    *(Option(name, least) for name, least in (
        ("foreground", 1), ("background", 1), ("terminal", 1), ("quiet", 1), ("help", 1), ("version", 1))),
    *(Option(name, least, 1) for name, least in (
        ("config", 1), ("name", 1), ("pidfile", 2), ("kill", 1), ("local-name", 1), ("port", 1), ("runfor", 1))),
]  # fmt: skip
#: HTCondor's options that are refused, and what to do instead.
_REFUSED = {
    "terminal": "the master writes MasterLog in LOG alone: `tail -F` shows it",
    "local-name": "a second master wants a directory of its own: SLOTWISE_HOME=DIR",
    "port": "SHARED_PORT_PORT is the port of a host's daemons",
    "runfor": "use `timeout -s TERM`, or `slotwise down` from cron",
}
USAGE = """usage: condor_master [-f] [-config FILE] [-name NAME] [-pidfile FILE]
       condor_master -kill FILE
  -f               in the foreground; otherwise in the background, and this ends when all daemons answer
  -config FILE     the configuration, in place of CONDOR_CONFIG
  -name NAME       MASTER_NAME
  -pidfile FILE    the master's process id is written there
  -kill FILE       the master whose process id FILE has ends its daemons and itself"""


def main(args: list[str], inv: Invocation) -> int:
    """Run the master, or end the one of a pid file."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.has("version"):
        from slotwise.cli.host.condor_names import version

        return version([], inv)
    for name, instead in _REFUSED.items():
        if parsed.has(name):
            raise UsageError(f"-{name} is not there", hint=instead)
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is no option", hint="condor_master -help lists them")
    if parsed.has("kill"):
        return _end(str(parsed.value("kill")), inv)
    env = dict(inv.env)
    if master := parsed.value("name"):
        env["_CONDOR_MASTER_NAME"] = master
    config = parsed.value("config")
    if config:
        env["CONDOR_CONFIG"] = str(inv.path(config))
    pid_file = inv.path(str(parsed.value("pidfile"))) if parsed.has("pidfile") else None
    if parsed.has("foreground"):
        from slotwise.daemon import runtime

        if pid_file is not None:
            pid_file.write_text(f"{os.getpid()}\n")
        return runtime.main("master", env)
    from slotwise.cli.host.personal_pool import up
    from slotwise.daemon import lock

    inv = replace(inv, env=env)
    status = up([], inv)
    if pid_file is not None and status == 0:
        pid_file.write_text(f"{lock.holder(inv.home, 'master') or 0}\n")
    return status


def _end(file: str, inv: Invocation) -> int:
    """Tell the master of a pid file to end its daemons and itself, gracefully."""
    try:
        text = inv.path(file).read_text().strip()
    except OSError as error:
        raise HostError(f"{file} cannot be read: {error.strerror}", hint="name the file of -pidfile") from None
    from slotwise.daemon import lock

    master = lock.holder(inv.home, "master")
    if master is None or text != str(master):
        raise HostError(f"{file} has process {text[:20]!r}, which is not the master of {inv.home.root}")
    with suppress(ProcessLookupError):
        os.kill(master, signal.SIGTERM)
    return 0

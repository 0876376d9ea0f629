"""``slotwise node drain``: empties a host before it is upgraded or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


def drain(args: list[str], inv: Invocation) -> int:
    """Drain a host."""
    from slotwise.cli.host import daemons
    from slotwise.cli.pool import drain as machine
    from slotwise.cli.pool.node.roster import admitted

    parser = Parser(
        inv,
        "node drain",
        "Empty a host. An execution point takes no more jobs, and those that run may end within their retirement time. "
        "The schedd of an access point is stopped once its running jobs have ended; its queue stays.",
    )
    parser.add_argument("name", metavar="HOST")
    parser.add_argument("--cancel", "-cancel", action="store_true", help="let the host work again")
    parser.add_argument("--fast", "-fast", action="store_true", help="jobs are killed, and go back to their queues")
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")
    options = parser.take(args)
    if options is None:
        return 0
    if options.cancel and options.fast:
        raise UsageError("--cancel and --fast exclude each other")
    aimed = inv.aimed(options.pool)
    name = options.name.lower()
    found = admitted(aimed).get(name)
    if found is None:
        raise NotFoundError(f"the pool has admitted no host {name}", hint="`slotwise node list` shows them")
    status = 0
    if "ep" in found.roles:
        words = ["-cancel"] if options.cancel else ["-fast"] if options.fast else ["-graceful"]
        status |= machine.main([*words, name], aimed)
    if "ap" in found.roles:
        if options.cancel:
            status |= daemons.on(["-schedd", name], aimed)
        else:
            status |= daemons.off(["-schedd", "-fast" if options.fast else "-peaceful", name], aimed)
    return status

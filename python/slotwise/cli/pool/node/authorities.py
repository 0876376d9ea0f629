"""``slotwise node authority``: who signs the certificates of the pool's hosts; on the central manager."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.render.table import Column, table
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.model.pool_host import host_name

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


def authorities(args: list[str], inv: Invocation) -> int:
    """List, add and remove authorities."""
    from slotwise.wire.authority import Authority, directory_of
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(
        inv,
        "node authority",
        "The pool's authorities, the one that signs marked; on the central manager, with a restart of the collector "
        "after a change. All hosts trust a further one within an hour, and it signs after two days.",
    )
    parser.add_argument("--add", "-add", action="store_true", help="make a further authority")
    parser.add_argument("--domain", "-domain", action="append", metavar="DOMAIN", help="with --add: of its hosts")
    parser.add_argument("--remove", "-remove", metavar="ID", help="remove an authority: nobody trusts it then")
    parser.add_argument("--anyway", "-anyway", action="store_true", help="although hosts may have certificates of it")
    parser.add_argument("--json", "-json", action="store_true", help="JSON for programs")
    options = parser.take(args)
    if options is None:
        return 0
    now, found = time.time(), Authority.read(inv.home)
    if found is None:
        raise NotFoundError(
            f"there is no authority in {directory_of(inv.home)}", hint="only the central manager has one"
        )
    if options.add:
        domains = [host_name(domain) for domain in options.domain or []] or found.domains()
        Authority.make(inv.home, PoolSecrets(inv.home).trust().pool, domains, now)
    elif options.domain:
        raise UsageError("--domain goes with --add")
    if options.remove:
        lifetime_s = inv.knobs().get_float("SLOTWISE_HOST_CERTIFICATE_LIFETIME")
        if not options.anyway and (left := found.needed_for(options.remove, now, lifetime_s)):
            raise DeniedError(
                f"hosts may have certificates of {options.remove} for {left / 86400:.0f} days more",
                hint="--anyway removes it at once: they cannot be called then",
            )
        found.remove(inv.home, options.remove)
    if options.add or options.remove:
        inv.err("`slotwise restart collector` makes the collector take this over.")
    found = Authority.read(inv.home)
    assert found is not None
    rows = found.described(now)
    if options.json:
        inv.out(json.dumps([each.fields() for each in rows], indent=2))
        return 0
    ends = [time.strftime("%Y-%m-%d", time.localtime(each.ends_at)) for each in rows]
    cells = [
        ["*" if each.signs else "", each.id, end, ", ".join(each.domains) or "any", each.fingerprint]
        for each, end in zip(rows, ends, strict=True)
    ]
    headings = [Column(heading) for heading in ("", "Id", "Until", "Domains", "Fingerprint")]
    inv.out(table(headings, cells), end="")
    return 0

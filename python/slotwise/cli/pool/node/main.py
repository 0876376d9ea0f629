"""``slotwise node``: the hosts of a pool, from the first ``install`` to ``uninstall``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from slotwise.cli.common import verbs
from slotwise.cli.common.parser import Parser
from slotwise.cli.host.token_options import lifetime_s
from slotwise.cli.pool.node import authorities, drain, install, remove, uninstall, upgrade
from slotwise.cli.pool.node.roster import ask
from slotwise.cli.render import colours
from slotwise.cli.render.table import Column, on_terminal, table
from slotwise.errors import DeniedError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import node_pb2


def main(args: list[str], inv: Invocation) -> int:
    """Run one of the verbs."""
    return verbs.run("node", _VERBS, args, inv)


def _add_pool(parser: Parser) -> None:
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")


def _add_json(parser: Parser) -> None:
    parser.add_argument("--json", "-json", action="store_true", help="JSON for programs")


def _at(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"


def _show(columns: list[Column], rows: list[list[str]], inv: Invocation) -> None:
    if inv.has_colours:
        inv.draw(on_terminal(columns, rows, 0, coloured=True))
        return
    inv.out(table(columns, rows), end="")


# ------------------------------------------------------------------------------------------------- hosts that wait


def requests(args: list[str], inv: Invocation) -> int:
    """List the hosts that wait for approval."""
    from slotwise.wire.gen import common_pb2

    parser = Parser(inv, "node requests", "Hosts that wait for approval, with the code that each shows.")
    _add_json(parser)
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    found = ask(inv.aimed(options.pool), lambda stub: stub.Requests, common_pb2.Empty()).requests
    if options.json:
        inv.out(json.dumps([_fields(each) for each in found], indent=2))
    elif not found:
        inv.out("No host waits for approval.")
    else:
        rows = [[each.code, each.name, ",".join(each.roles), each.peer, _at(each.asked_at)] for each in found]
        _show([Column(heading) for heading in ("Code", "Host", "Roles", "From", "Since")], rows, inv)
    return 0


def _fields(each: node_pb2.NodeRequest) -> dict[str, object]:
    return {
        "Code": each.code,
        "Host": each.name,
        "Roles": list(each.roles),
        "Address": each.peer,
        "AskedAt": each.asked_at,
        "Version": each.version,
    }


def approve(args: list[str], inv: Invocation) -> int:
    """Admit a host."""
    from slotwise.wire.gen import node_pb2

    parser = Parser(
        inv,
        "node approve",
        "Admit the host that shows CODE: it gets a certificate for its name, and a token for what its daemons do.",
    )
    parser.add_argument("code", metavar="CODE")
    parser.add_argument("--anyway", "-anyway", action="store_true", help="even if the name is that of another address")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    aimed = inv.aimed(options.pool)
    found = _waiting(options.code, aimed)
    if found is not None:
        inv.out(f"{found.name}, from {found.peer}, as {', '.join(found.roles)} (code {found.code})")
        _require_own_name(found, anyway=options.anyway, inv=inv)
    done = ask(aimed, lambda stub: stub.Approve, node_pb2.DecideNodeRequest(code=options.code))
    inv.out(f"{done.name} is admitted.")
    return 0


def _waiting(code: str, inv: Invocation) -> node_pb2.NodeRequest | None:
    from slotwise.wire.gen import common_pb2

    meant = code.strip().upper().replace("-", "")
    found = ask(inv, lambda stub: stub.Requests, common_pb2.Empty()).requests
    return next((each for each in found if meant == each.code.replace("-", "") or code == each.request_id), None)


def _require_own_name(found: node_pb2.NodeRequest, *, anyway: bool, inv: Invocation) -> None:
    """Compare the name that a host asks for with the address that it asks from.

    :raises DeniedError: when the name is that of other addresses.
    """
    import socket

    try:
        known = {str(entry[4][0]) for entry in socket.getaddrinfo(found.name, None)}
    except OSError:
        inv.err(f"WARNING: {found.name} cannot be looked up here, and so cannot be reached by this name.")
        return
    peer = found.peer.removeprefix("::ffff:")
    if peer in known or anyway:
        return
    raise DeniedError(
        f"{found.name} is at {', '.join(sorted(known))}, and {peer} asks for this name",
        hint="is that the host's own address, behind a translation of addresses? then approve with --anyway",
    )


def deny(args: list[str], inv: Invocation) -> int:
    """Refuse a host."""
    from slotwise.wire.gen import node_pb2

    parser = Parser(inv, "node deny", "Refuse the host that shows CODE.")
    parser.add_argument("code", metavar="CODE")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    done = ask(inv.aimed(options.pool), lambda stub: stub.Deny, node_pb2.DecideNodeRequest(code=options.code))
    inv.out(f"{done.name}, from {done.peer}, is refused.")
    return 0


def token(args: list[str], inv: Invocation) -> int:
    """Make a join token, or end one."""
    from slotwise.cli.pool.node.join_token import JoinToken
    from slotwise.wire import authority
    from slotwise.wire.gen import common_pb2, node_pb2
    from slotwise.wire.token import write_secret

    parser = Parser(
        inv,
        "node token",
        "A token with which hosts join without an approval: `slotwise node install --token-file FILE` there. Whoever "
        "has it may join under any name that no host of the pool has.",
    )
    parser.add_argument("--role", "-role", action="append", metavar="ROLE", help="ap, ep or both: what hosts may be")
    parser.add_argument("--uses", "-uses", type=int, default=1, metavar="N", help="how many hosts (1)")
    parser.add_argument("--lifetime", "-lifetime", default="1h", metavar="TIME", help="how long it holds (1h)")
    parser.add_argument("--network", "-network", default="", metavar="NETWORK", help="hosts of this network alone")
    parser.add_argument("--file", "-file", metavar="FILE", help="write it there (mode 0600) and not to the output")
    parser.add_argument("--revoke", "-revoke", metavar="ID", help="end the token with this id instead")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    aimed = inv.aimed(options.pool)
    if options.revoke:
        ask(aimed, lambda stub: stub.RevokeToken, node_pb2.RevokeJoinTokenRequest(id=options.revoke))
        inv.out(f"The join token {options.revoke} admits nobody any more.")
        return 0
    asked = node_pb2.JoinTokenRequest(
        roles=options.role or [],
        uses=options.uses,
        lifetime_s=lifetime_s(options.lifetime),
        network=options.network,
    )
    about = ask(aimed, lambda stub: stub.Authority, common_pb2.Empty())
    if not about.issues:
        raise UsageError("this pool has certificates of its site, so no join token can vouch for it")
    made = ask(aimed, lambda stub: stub.CreateToken, asked)
    port = inv.knobs().get_int("COLLECTOR_PORT")
    text = JoinToken(f"{about.name}:{port}", authority.fingerprint(about.authorities), made.id, made.secret).text()
    inv.err(f"The join token {made.id} holds until {_at(made.expires_at)}.")
    if options.file:
        write_secret(inv.path(options.file), text + "\n")
    else:
        inv.out(text)
    return 0


def fingerprint(args: list[str], inv: Invocation) -> int:
    """Show the fingerprint of the pool's authority."""
    from slotwise.wire import authority
    from slotwise.wire.gen import common_pb2

    parser = Parser(inv, "node fingerprint", "The fingerprint of the pool's authority, to compare when a host joins.")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    found = ask(inv.aimed(options.pool), lambda stub: stub.Authority, common_pb2.Empty())
    if not found.issues:
        raise UsageError("this pool has no authority of its own: its hosts have certificates of their site")
    inv.out(authority.fingerprint(found.authorities))
    return 0


# ------------------------------------------------------------------------------------------------ hosts of the pool


def list_(args: list[str], inv: Invocation) -> int:
    """List the hosts of the pool."""
    from slotwise.wire.gen import common_pb2

    parser = Parser(inv, "node list", "The hosts that the pool has admitted.")
    _add_json(parser)
    parser.add_argument("--removed", "-removed", action="store_true", help="also those that were removed")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    found = ask(inv.aimed(options.pool), lambda stub: stub.List, common_pb2.Empty()).nodes
    shown = [each for each in found if options.removed or each.state != "removed"]
    if options.json:
        inv.out(json.dumps([_node(each) for each in shown], indent=2))
        return 0
    rows = [
        [
            each.name,
            ",".join(each.roles),
            each.state,
            each.version,
            _at(each.certificate_ends_at),
            "local" if each.address.startswith("unix:") else each.address,
        ]
        for each in shown
    ]
    _show(
        [
            Column("Host"), Column("Roles"), Column("State", colour=colours.host_state), Column("Version"),
            Column("Certificate until"), Column("Address"),
        ],
        rows, inv,
    )  # fmt: skip
    return 0


def _node(each: node_pb2.Node) -> dict[str, object]:
    return {
        "Host": each.name,
        "Roles": list(each.roles),
        "State": each.state,
        "Version": each.version,
        "Address": each.address,
        "CertificateEndsAt": each.certificate_ends_at,
        "JoinedAt": each.joined_at,
        "ApprovedBy": each.by,
        "RemovedAt": each.removed_at,
    }


_VERBS: dict[str, Callable[[list[str], Invocation], int]] = {
    "install": install.install,
    "requests": requests,
    "approve": approve,
    "deny": deny,
    "token": token,
    "fingerprint": fingerprint,
    "authority": authorities.authorities,
    "list": list_,
    "drain": drain.drain,
    "upgrade": upgrade.upgrade,
    "remove": remove.remove,
    "uninstall": uninstall.uninstall,
}

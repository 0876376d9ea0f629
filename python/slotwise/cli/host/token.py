"""``slotwise token``: its verbs; tokens that this host makes, and those that the caller has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slotwise.cli.common import verbs
from slotwise.cli.common.parser import Parser
from slotwise.cli.host import pool_keys, token_requests
from slotwise.cli.host.token_options import add_place, add_scopes, lifetime_s, put, require_identity, scopes
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


#: What a glide-in may do: be an execution point, and hear what the pool trusts.
GLIDEIN_LEVELS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")


def main(args: list[str], inv: Invocation) -> int:
    """Run one of the verbs."""
    return verbs.run("token", _VERBS, args, inv)


def create(args: list[str], inv: Invocation) -> int:
    """Make a token, signed with the key of this pool."""
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(inv, "token create", "Make a token, signed with the key of this pool; on the central manager.")
    parser.add_argument("--identity", "-identity", metavar="USER@DOMAIN", help="who will use the token")
    add_scopes(parser)
    add_place(parser)
    options = parser.take(args)
    if options is None:
        return 0
    require_identity(options.identity)
    made = PoolSecrets(inv.home).mint(
        options.identity,
        scopes(options) or ["WRITE"],
        now=time.time(),
        lifetime_s=None if options.lifetime is None else lifetime_s(options.lifetime),
    )
    return put(made, options, inv)


def glidein(args: list[str], inv: Invocation) -> int:
    """Make the file that a glide-in is given."""
    from slotwise.daemon.locate import shown_collector
    from slotwise.glidein.pass_file import Pass
    from slotwise.wire import tls
    from slotwise.wire.contact import key_of
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(
        inv,
        "token glidein",
        "Make the file for `slotwise glidein --token`, on the central manager: a token that only advertises execution "
        "points, the collector's address, and the authorities by which it is known.",
    )
    parser.add_argument(
        "--identity", "-identity", metavar="USER@DOMAIN", help="default: glidein@ and the pool's domain"
    )
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector, as glide-ins reach it")
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", default="30d", help="of the token (default 30d)")
    add_place(parser)
    options = parser.take(args)
    if options is None:
        return 0
    secrets = PoolSecrets(inv.home)
    identity = options.identity or f"glidein@{secrets.trust().pool}"
    require_identity(identity)
    made = secrets.mint(identity, GLIDEIN_LEVELS, now=time.time(), lifetime_s=lifetime_s(options.lifetime))
    pool = options.pool or shown_collector(inv.home)
    authorities = b"" if key_of(pool) else tls.authorities_of_daemons(inv.knobs()) or b""
    if not key_of(pool) and not authorities:
        inv.err(
            "WARNING: glide-ins cannot know this pool: set AUTH_SSL_SERVER_CERTFILE, AUTH_SSL_SERVER_KEYFILE and "
            "AUTH_SSL_CLIENT_CAFILE, or SLOTWISE_ADDRESS_KEY = True, and make the file anew"
        )
    return put(Pass(made, pool, authorities.decode()).text().rstrip("\n"), options, inv)


def show(args: list[str], inv: Invocation) -> int:
    """Say what a token says."""
    from slotwise.wire import token

    parser = Parser(inv, "token show", "What a token says; your own without FILE.")
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("--json", "-json", action="store_true", help="JSON for programs")
    options = parser.take(args)
    if options is None:
        return 0
    env = dict(inv.env)
    if options.file:
        env["SLOTWISE_TOKEN_FILE"] = str(inv.path(options.file))
    found = token.find_token(inv.home, env, inv.knobs)
    if found is None:
        inv.err(f"ERROR: you have no token for the pool at {inv.home.root}; on its own hosts you need none")
        return 1
    _, claims = token.peek(found)
    if options.json:
        inv.out(json.dumps(claims))
        return 0
    inv.out(f"Identity:    {claims.get('sub', 'nobody')}")
    inv.out(f"Scopes:      {claims.get('scope', 'none')}")
    inv.out(f"Issued by:   {claims.get('iss', 'nobody')}")
    inv.out(f"Token id:    {claims.get('jti', 'none')}")
    inv.out(f"Valid until: {_until(claims)}")
    return 0


def _until(claims: Mapping[str, object]) -> str:
    ends = claims.get("exp")
    if not isinstance(ends, int | float):
        return "no end"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(ends)))


def list_(args: list[str], inv: Invocation) -> int:
    """List the caller's tokens."""
    from pathlib import Path

    from slotwise.wire import token

    parser = Parser(inv, "token list", "Your tokens, one in a line: what each says, and its file.")
    parser.add_argument("--dir", "-dir", metavar="DIRECTORY", help="look there instead")
    if not inv.called:  # HTCondor's tool has no such option
        parser.add_argument("--json", "-json", action="store_true", help="one JSON array, for programs")
    options = parser.take(args)
    if options is None:
        return 0
    as_json = not inv.called and options.json
    rows: list[dict[str, object]] = []
    places = [inv.path(options.dir)] if options.dir else token.token_directories(inv.home, inv.env, inv.knobs())
    if not options.dir and (named := inv.env.get("SLOTWISE_TOKEN_FILE")):
        places.insert(0, Path(named))
    failed = 0
    for place in places:
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        files = [path for path in files if not path.is_dir() and (path.exists() or path != place)]
        for path in files:
            try:
                for text in path.read_text().split():
                    header, claims = token.peek(text)
                    if as_json:
                        rows.append({"Header": dict(header), "Payload": dict(claims), "File": str(path)})
                        continue
                    inv.out(
                        f"Header: {json.dumps(header, separators=(',', ':'))} "
                        f"Payload: {json.dumps(claims, separators=(',', ':'), sort_keys=True)} File: {path}"
                    )
            except (OSError, UnicodeDecodeError, SlotwiseError) as error:
                inv.err(f"ERROR: {path}: {error}")
                failed = 1
    if as_json:
        inv.out(json.dumps(rows))
    return failed


_VERBS: dict[str, Callable[[list[str], Invocation], int]] = {
    "create": create,
    "glidein": glidein,
    "show": show,
    "list": list_,
    "fetch": token_requests.fetch,
    "request": token_requests.request,
    "requests": token_requests.requests,
    "approve": token_requests.approve,
    "auto-approve": token_requests.auto_approve,
    "revoke": token_requests.revoke,
    "keys": pool_keys.keys,
    "upgrade": pool_keys.upgrade,
}

"""`slotwise token`: make tokens for people and other hosts, and show what a token says."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from slotwise.cli.parser import Parser
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.invocation import Invocation

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


_VERBS = "create, show"


def main(args: list[str], inv: Invocation) -> int:
    """Make or show tokens."""
    if not args or args[0] in ("-h", "-help", "--help"):
        inv.out(f"usage: slotwise token VERB ...; verbs are {_VERBS}; `slotwise token VERB --help` tells more")
        return 0 if args else 2
    verb = {"create": create, "show": show}.get(args[0])
    if verb is None:
        raise UsageError(f"token has no verb {args[0]!r}", hint=f"verbs are {_VERBS}")
    return verb(args[1:], inv)


def create(args: list[str], inv: Invocation) -> int:
    """Make a token, signed with the key of this pool."""
    from slotwise.wire import token

    parser = Parser(inv, "token create", "Make a token, signed with the key of this pool.")
    parser.add_argument("--identity", "-identity", metavar="USER@DOMAIN", help="whose token it is")
    parser.add_argument(
        "--scope",
        "-scope",
        "-authz",
        action="append",
        metavar="SCOPE",
        help="READ, WRITE (default), DAEMON, ADMINISTRATOR",
    )
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", help="as 3600, 12h, 30d; without it no end")
    parser.add_argument("--file", "-file", metavar="FILE", help="write it there (mode 0600) and not to the output")
    options = parser.take(args)
    if options is None:
        return 0
    if options.identity is None:
        raise UsageError("a token needs --identity USER@DOMAIN", hint="it names who will use the token")
    user, at, domain = options.identity.partition("@")
    if not (user and at and domain) or any(c.isspace() for c in options.identity):
        raise UsageError(f"{options.identity!r} is not an identity", hint="write it as user@domain")
    scopes = [word.upper() for text in options.scope or ["WRITE"] for word in text.replace(",", " ").split()]
    made = token.mint(
        token.pool_key(inv.home),
        options.identity,
        scopes,
        issued_at=int(time.time()),
        lifetime_s=None if options.lifetime is None else lifetime_s(options.lifetime),
    )
    if options.file is None:
        inv.out(made)
    else:
        token.write_secret(inv.path(options.file), made + "\n")
    return 0


def lifetime_s(text: str) -> int:
    """Seconds that ``text`` (a number with an optional unit s, m, h, d or w) means.

    :raises UsageError: when it is no such time, or not more than zero.
    """
    number, unit = (text[:-1], text[-1].lower()) if text and text[-1].lower() in _UNITS else (text, "s")
    if not number.isdigit() or int(number) == 0:
        raise UsageError(f"{text!r} is not a lifetime", hint="write it as 3600, 12h or 30d")
    return int(number) * _UNITS[unit]


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
    found = token.find_token(inv.home, env)
    if found is None:
        inv.err(f"ERROR: you have no token for the pool at {inv.home.root}")
        return 1
    claims = token.peek(found)
    if options.json:
        inv.out(json.dumps(claims))
        return 0
    until = "no end"
    if "exp" in claims:
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(claims["exp"])))
    inv.out(f"Identity:    {claims.get('sub', 'nobody')}")
    inv.out(f"Scopes:      {claims.get('scope', 'none')}")
    inv.out(f"Valid until: {until}")
    return 0

"""`slotwise token`: make tokens for people and other hosts, and show what a token says."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from slotwise.cli.parser import Parser
from slotwise.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from slotwise.cli.invocation import Invocation

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def main(args: list[str], inv: Invocation) -> int:
    """Make or show tokens."""
    parser = Parser(inv, "token", "Make tokens, and show what they say.")
    verbs = parser.add_subparsers(dest="verb", parser_class=_Plain, required=True, metavar="VERB")
    create = verbs.add_parser("create", help="make a token, signed with the key of this pool")
    create.add_argument("--identity", "-identity", required=True, metavar="USER@DOMAIN")
    create.add_argument(
        "--scope",
        "-scope",
        "-authz",
        action="append",
        metavar="SCOPE",
        help="READ, WRITE (default), DAEMON, ADMINISTRATOR",
    )
    create.add_argument("--lifetime", "-lifetime", metavar="TIME", help="as 3600, 12h, 30d; without it no end")
    create.add_argument("--file", "-file", metavar="FILE", help="write it there (mode 0600) and not to the output")
    show = verbs.add_parser("show", help="what a token says; the caller's own without FILE")
    show.add_argument("file", nargs="?", metavar="FILE")
    show.add_argument("--json", "-json", action="store_true")
    options = parser.take(args)
    if options is None:
        return 0
    return _create(options, inv) if options.verb == "create" else _show(options, inv)


class _Plain(Parser):
    """A verb's parser; the caller's streams are those of the outer one."""

    def __init__(self, **more: object) -> None:
        import argparse

        more["add_help"] = False
        argparse.ArgumentParser.__init__(self, **more)  # type: ignore[arg-type]


def _create(options: argparse.Namespace, inv: Invocation) -> int:
    from slotwise.wire import token

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


def _show(options: argparse.Namespace, inv: Invocation) -> int:
    from slotwise.wire import token

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

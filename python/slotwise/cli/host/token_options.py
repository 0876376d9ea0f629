"""What the verbs of ``slotwise token`` share: scopes and lifetimes as options, and where a token is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def add_scopes(parser: Parser) -> None:
    """Options for what a token permits, and for how long."""
    parser.add_argument(
        "--scope",
        "-scope",
        "-authz",
        action="append",
        metavar="SCOPE",
        help="an authorization level, as READ, WRITE (default), ADMINISTRATOR, ADVERTISE_STARTD",
    )
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", help="as 3600, 12h, 30d; without it no end")


def add_place(parser: Parser) -> None:
    """Options for where a token is written."""
    parser.add_argument("--file", "-file", metavar="FILE", help="write it there (mode 0600) and not to the output")
    parser.add_argument("--token", "-token", metavar="NAME", help="write it into your directory of tokens")
    parser.add_argument("--json", "-json", action="store_true", help="the token, or the file that it is in, as JSON")


def scopes(options: Namespace) -> list[str]:
    """The levels that the options name."""
    return [word.upper() for text in options.scope or [] for word in text.replace(",", " ").split()]


def require_identity(text: str | None) -> None:
    """Check that an identity is ``user@domain``.

    :raises UsageError: there is none, or it is not one.
    """
    if text is None:
        raise UsageError("a token needs --identity USER@DOMAIN", hint="it names who will use the token")
    user, at, domain = text.partition("@")
    if not (user and at and domain) or any(c.isspace() for c in text):
        raise UsageError(f"{text!r} is not an identity", hint="write it as user@domain")


def put(made: str, options: Namespace, inv: Invocation) -> int:
    """Write a token to where the caller wants it."""
    from slotwise.wire.token import token_directories, write_secret

    path = None
    if options.token is not None:
        if "/" in options.token or options.token.startswith("."):
            raise UsageError(f"{options.token!r} is a path", hint="-token takes a name, -file a path")
        directory = token_directories(inv.home, inv.env, inv.knobs())[-1]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / options.token
    elif options.file is not None:
        path = inv.path(options.file)
    if path is not None:
        write_secret(path, made + "\n")
    if options.json:
        inv.out(json.dumps({"token": made} if path is None else {"file": str(path)}))
    elif path is None:
        inv.out(made)
    return 0


def lifetime_s(text: str) -> int:
    """Seconds that ``text`` (a number with an optional unit s, m, h, d or w) means.

    :raises UsageError: when it is not such a time, or not more than zero.
    """
    number, unit = (text[:-1], text[-1].lower()) if text and text[-1].lower() in _UNITS else (text, "s")
    if not number.isdigit() or int(number) == 0:
        raise UsageError(f"{text!r} is not a lifetime", hint="write it as 3600, 12h or 30d")
    return int(number) * _UNITS[unit]

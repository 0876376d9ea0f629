"""``slotwise store-cred``: store, query and delete credentials that the access point gives to one's jobs."""

from __future__ import annotations

import getpass
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common.options import Option, parse
from slotwise.errors import DeniedError, NotFoundError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.common.options import Parsed
    from slotwise.client.convert import Credentials

USAGE = """usage: slotwise store-cred ACTION [options]
  Credentials of services (OAuth2, SciTokens), kept by the access point for jobs that name them in use_oauth_services.
  ACTION: add-oauth      store one in the place of any that there is
          query-oauth    whether one is stored; without -s which ones are
          delete-oauth   remove one; without -s all
  -s SERVICE    the service
  -H HANDLE     which of several credentials of a service
  -i FILE       the file of the credential; - for standard input
  -P            it is an access token, which jobs get as it is; without it a refresh token, with which tokens are made
  -S SCOPES     (add) scopes that it is for, (query) that it has to be for; with commas between
  -A AUDIENCE   (add) the audience that it is for, (query) that it has to be for
  -u USER       whose credential, for those whom CRED_SUPER_USERS names
  -n NAME       the access point; -debug: nothing more is said"""
_OPTIONS = [
    Option("help", 1),
    Option("debug", 1),
    Option("service", 1, 1),
    Option("input", 1, 1),
    Option("username", 1, 1),
    Option("name", 1, 1),
]
#: Options that differ in case alone: their letter says which.
_LETTERS = {"-H": "handle", "-S": "scopes", "-A": "audience"}
_ACTIONS = ("add", "query", "delete")
_OAUTH = ("oauth", "oath", "scitokens")
#: The largest credential that is read, bytes.
_LARGEST = 1 << 20


def main(args: list[str], inv: Invocation) -> int:
    """Ask the schedd."""
    try:
        action, letters, plain, parsed = _read(args)
    except UsageError as error:
        if not inv.called:
            raise
        inv.err(f"ERROR: {error.message}\n")
        inv.err(USAGE)
        return 1
    if parsed.has("help") or not action:
        (inv.err if inv.called else inv.out)(USAGE)
        return 0 if parsed.has("help") and not inv.called else 1
    user = parsed.value("username") or ""
    inv.out(f"Account: {user}" if user else f"Account: <current> ({getpass.getuser()})")
    inv.out("CredType: oauth\n")
    try:
        return _do(action, letters, plain, parsed, inv)
    except NotFoundError as error:
        inv.out("No credential is stored." if action == "query" else f"Operation failed: {error}")
    except DeniedError as error:
        inv.out(f"Operation failed.\n    {error}")
    except SlotwiseError as error:
        inv.out(
            f"{error}." if str(error).startswith(("Credential ", "Failure ")) else f"Operation failed.\n    {error}"
        )
    return 1


def _read(args: list[str]) -> tuple[str, dict[str, str], bool, Parsed]:
    """The action, the options that differ in case alone, whether it is an access token, and the rest."""
    words, letters, plain = [], {}, False
    rest = iter(args)
    for word in rest:
        if word in _LETTERS:
            if (value := next(rest, None)) is None:
                raise UsageError(f"Option '{word}' requires an argument")
            letters[_LETTERS[word]] = value
        elif word == "-P":
            plain = True
        else:
            words.append(word)
    parsed = parse(words, _OPTIONS)
    if len(parsed.words) > 1:
        raise UsageError(f"Unrecognized command - '{parsed.words[1]}'")
    action, _, kind = parsed.words[0].lower().partition("-") if parsed.words else ("", "", "")
    if action and action not in _ACTIONS:
        raise UsageError(f"Unrecognized command - '{parsed.words[0]}'", hint="add-oauth, query-oauth or delete-oauth")
    if action and not any(kind and name.startswith(kind) for name in _OAUTH):
        raise UsageError(
            f"credentials of type {kind or 'password'} are not kept", hint=f"{action}-oauth is for tokens of services"
        )
    if action == "add" and not parsed.value("input"):
        raise UsageError("add-krb and add-oauth commands require a credential filename argument", hint="-i FILE")
    if action == "add" and not parsed.value("service"):
        raise UsageError("add-oauth command requires a service name", hint="-s SERVICE")
    return action, letters, plain, parsed


def _do(action: str, letters: dict[str, str], plain: bool, parsed: Parsed, inv: Invocation) -> int:
    from slotwise.client import Schedd

    service, user = parsed.value("service") or "", parsed.value("username") or ""
    handle = letters.get("handle", "")
    wanted = {name: letters.get(name, "") for name in ("scopes", "audience")}
    with Schedd(env=inv.env, name=parsed.value("name")) as schedd:
        if action == "delete":
            schedd.delete_credential(service, handle=handle, user=user)
            inv.out("Operation succeeded.")
        elif action == "query":
            found = schedd.credentials(service, handle=handle, user=user, **wanted)
            inv.out(f"A credential was stored and is {'waiting for processing' if found.pending else 'valid'}.")
            _tell(found, inv)
        else:
            content = _content(parsed.value("input") or "", inv)
            found = schedd.store_credential(service, content, handle=handle, user=user, refreshed=not plain, **wanted)
            inv.out(f"Operation succeeded{' and is waiting for processing' if found.pending else ''}.")
            if found.note:
                inv.err(f"WARNING: {found.note}")
    return 0


def _tell(found: Credentials, inv: Invocation) -> None:
    inv.out("\nCredential info:")
    for name, at in sorted(found.files.items()):
        inv.out(f"{name}  {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}")
    inv.out("")


def _content(place: str, inv: Invocation) -> bytes:
    """What is to be stored.

    :raises UsageError: it cannot be read.
    """
    try:
        if place == "-":
            return sys.stdin.buffer.read(_LARGEST)
        with Path(inv.path(place)).open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise UsageError(f"Could not read credential from {place}: {error.strerror}") from None

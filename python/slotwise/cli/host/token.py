"""`slotwise token`: tokens for people and hosts, as condor_token_create and its kin."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from slotwise.cli.common.parser import Parser
from slotwise.errors import DeniedError, NotFoundError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from google.protobuf.message import Message

    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import token_pb2, token_pb2_grpc

Reply = TypeVar("Reply")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: How long a request waits for its approval, in seconds, and how often it asks.
_PATIENCE_S, _ASK_S = 3600, 2.0
_CALL_S = 20.0


def main(args: list[str], inv: Invocation) -> int:
    """Run one of the verbs."""
    verbs = ", ".join(_VERBS)
    if not args or args[0] in ("-h", "-help", "--help"):
        inv.out(f"usage: slotwise token VERB ...; verbs are {verbs}; `slotwise token VERB --help` explains one")
        return 0 if args else 2
    verb = _VERBS.get(args[0])
    if verb is None:
        raise UsageError(f"token has no verb {args[0]!r}", hint=f"verbs are {verbs}")
    return verb(args[1:], inv)


# ------------------------------------------------------------------------------------------------ making and showing


def create(args: list[str], inv: Invocation) -> int:
    """Make a token, signed with the key of this pool."""
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(inv, "token create", "Make a token, signed with the key of this pool; on the central manager.")
    parser.add_argument("--identity", "-identity", metavar="USER@DOMAIN", help="who will use the token")
    _add_scopes(parser)
    _add_place(parser)
    options = parser.take(args)
    if options is None:
        return 0
    _require_identity(options.identity)
    made = PoolSecrets(inv.home).mint(
        options.identity,
        _scopes(options) or ["WRITE"],
        now=time.time(),
        lifetime_s=None if options.lifetime is None else lifetime_s(options.lifetime),
    )
    return _put(made, options, inv)


def _add_scopes(parser: Parser) -> None:
    parser.add_argument(
        "--scope",
        "-scope",
        "-authz",
        action="append",
        metavar="SCOPE",
        help="an authorization level, as READ, WRITE (default), ADMINISTRATOR, ADVERTISE_STARTD",
    )
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", help="as 3600, 12h, 30d; without it no end")


def _add_place(parser: Parser) -> None:
    parser.add_argument("--file", "-file", metavar="FILE", help="write it there (mode 0600) and not to the output")
    parser.add_argument("--token", "-token", metavar="NAME", help="write it into your directory of tokens")


def _scopes(options: Namespace) -> list[str]:
    return [word.upper() for text in options.scope or [] for word in text.replace(",", " ").split()]


def _require_identity(text: str | None) -> None:
    if text is None:
        raise UsageError("a token needs --identity USER@DOMAIN", hint="it names who will use the token")
    user, at, domain = text.partition("@")
    if not (user and at and domain) or any(c.isspace() for c in text):
        raise UsageError(f"{text!r} is not an identity", hint="write it as user@domain")


def _put(made: str, options: Namespace, inv: Invocation) -> int:
    """Write a token to where the caller wants it."""
    from slotwise.wire.token import token_directories, write_secret

    if options.token is not None:
        if "/" in options.token or options.token.startswith("."):
            raise UsageError(f"{options.token!r} is a path", hint="-token takes a name, -file a path")
        directory = token_directories(inv.home, inv.env, inv.knobs())[-1]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(directory / options.token, made + "\n")
    elif options.file is not None:
        write_secret(inv.path(options.file), made + "\n")
    else:
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
    options = parser.take(args)
    if options is None:
        return 0
    places = [inv.path(options.dir)] if options.dir else token.token_directories(inv.home, inv.env, inv.knobs())
    if not options.dir and (named := inv.env.get("SLOTWISE_TOKEN_FILE")):
        places.insert(0, Path(named))
    failed = 0
    for place in places:
        files = sorted(place.iterdir()) if place.is_dir() else [place] if place.is_file() else []
        for path in files:
            try:
                for text in path.read_text().split():
                    header, claims = token.peek(text)
                    inv.out(
                        f"Header: {json.dumps(header, separators=(',', ':'))} "
                        f"Payload: {json.dumps(claims, separators=(',', ':'), sort_keys=True)} File: {path}"
                    )
            except (OSError, UnicodeDecodeError, SlotwiseError) as error:
                inv.err(f"ERROR: {path}: {error}")
                failed = 1
    return failed


# ----------------------------------------------------------------------------------------------- asking the collector


def _call(
    inv: Invocation, method: Callable[[token_pb2_grpc.TokensStub], Callable[..., Reply]], request: Message
) -> Reply:
    """Ask the collector, which issues tokens."""
    import grpc

    from slotwise.wire.gen import token_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        return method(inv.stub(token_pb2_grpc.TokensStub, "collector"))(request, timeout=_CALL_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="the collector") from None


def _add_pool(parser: Parser) -> None:
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")


def fetch(args: list[str], inv: Invocation) -> int:
    """Get a token for oneself."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token fetch", "A token for yourself, with no more than you may do here.")
    _add_scopes(parser)
    _add_place(parser)
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    lifetime = 0 if options.lifetime is None else lifetime_s(options.lifetime)
    request = token_pb2.FetchTokenRequest(scopes=_scopes(options), lifetime_s=lifetime)
    return _put(_call(inv.aimed(options.pool), lambda stub: stub.Fetch, request).token, options, inv)


def request(args: list[str], inv: Invocation) -> int:
    """Ask for a token, and wait until an administrator approves."""
    import hashlib
    import socket

    from slotwise import ids
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token request", "Ask for a token that an administrator approves, and wait for it.")
    parser.add_argument("--identity", "-identity", metavar="USER@DOMAIN", help="who will use the token")
    _add_scopes(parser)
    _add_place(parser)
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    _require_identity(options.identity)
    aimed, secret = inv.aimed(options.pool), ids.secret(256)
    asked = token_pb2.TokenRequest(
        identity=options.identity,
        scopes=_scopes(options),
        lifetime_s=0 if options.lifetime is None else lifetime_s(options.lifetime),
        client_id=f"{socket.gethostname()}-{os.getpid()}",
        secret_digest=hashlib.sha256(secret.encode()).hexdigest(),
    )
    reply = _call(aimed, lambda stub: stub.Request, asked)
    inv.err(f"Token request {reply.request_id} waits for approval; its code is {reply.code}.")
    inv.err(f"An administrator approves it with `slotwise token approve {reply.request_id}`.")
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        collect = token_pb2.CollectTokenRequest(request_id=reply.request_id, secret=secret)
        made = _call(aimed, lambda stub: stub.Collect, collect).token
        if made:
            return _put(made, options, inv)
        time.sleep(_ASK_S)
    raise NotFoundError("the request was not approved within an hour")


def requests(args: list[str], inv: Invocation) -> int:
    """List requests that wait."""

    parser = Parser(inv, "token requests", "Requests for tokens that wait for approval.")
    parser.add_argument("--json", "-json", action="store_true", help="JSON for programs")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    waiting = list(_waiting(inv.aimed(options.pool)))
    if options.json:
        inv.out(json.dumps([_fields(each) for each in waiting], indent=2))
        return 0
    for each in waiting:
        _print(each, inv)
    return 0


def _waiting(inv: Invocation) -> Iterable[token_pb2.PendingToken]:
    """The requests that wait for approval."""
    from slotwise.wire.gen import common_pb2

    found: token_pb2.TokenRequests = _call(inv, lambda stub: stub.Requests, common_pb2.Empty())
    return found.requests


def _fields(each: token_pb2.PendingToken) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "RequestId": each.request_id,
        "Code": each.code,
        "RequestedIdentity": each.identity,
        "PeerLocation": each.peer,
        "ClientId": each.client_id,
        "LimitAuthorization": ",".join(each.scopes),
    }
    if each.lifetime_s:
        found["RequestedLifetime"] = each.lifetime_s
    return found


def _print(each: token_pb2.PendingToken, inv: Invocation) -> None:
    for name, value in _fields(each).items():
        inv.out(f"{name} = {json.dumps(value)}")
    inv.out()


def approve(args: list[str], inv: Invocation) -> int:
    """Approve requests."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token approve", "Approve requests for tokens: the named ones, else each that you say yes to.")
    parser.add_argument("words", nargs="*", metavar="REQUEST|CODE")
    parser.add_argument("--reqid", "-reqid", metavar="REQUEST", help="as a word")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    aimed = inv.aimed(options.pool)
    waiting = list(_waiting(aimed))
    named = [*options.words, *([options.reqid] if options.reqid else [])]
    if not named:
        named = [each.request_id for each in waiting if _agreed(each, inv)]
    for word in named:
        found = [each for each in waiting if word in (each.request_id, each.code)]
        if len(found) != 1:
            raise NotFoundError(f"there is no request {word}", hint="`slotwise token requests` shows what waits")
        approved = token_pb2.ApproveTokenRequest(request_id=found[0].request_id)
        _call(aimed, lambda stub: stub.Approve, approved)
        _say_approved(found[0], inv)
    return 0


def _say_approved(each: token_pb2.PendingToken, inv: Invocation) -> None:
    inv.out(f"Request {each.request_id} of {each.identity} (code {each.code}) approved.")


def _agreed(each: token_pb2.PendingToken, inv: Invocation) -> bool:
    _print(each, inv)
    inv.out("To approve, please type 'yes'")
    return inv.stdin.readline().strip() == "yes"


def auto_approve(args: list[str], inv: Invocation) -> int:
    """Approve requests of hosts from a network for a while."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token auto-approve", "Approve requests of daemons of a network for a while.")
    parser.add_argument("--netblock", "-netblock", metavar="NETWORK", help="as 192.0.2.0/24")
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", help="how long the rule holds, as 600 or 1h")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    if options.netblock is None or options.lifetime is None:
        raise UsageError("auto-approve needs -netblock and -lifetime", hint="-netblock 192.0.2.0/24 -lifetime 1h")
    rule = token_pb2.AutoApproveRule(netblock=options.netblock, lifetime_s=lifetime_s(options.lifetime))
    covered = _call(inv.aimed(options.pool), lambda stub: stub.AutoApprove, rule).requests
    inv.out(f"Requests of daemons from {options.netblock} are approved for {rule.lifetime_s} s, or until a reconfig.")
    for each in covered:
        _say_approved(each, inv)
    return 0


def revoke(args: list[str], inv: Invocation) -> int:
    """Revoke tokens."""
    from slotwise.wire import token
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token revoke", "Revoke tokens by their ids, on all hosts within a minute.")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--file", "-file", metavar="FILE", help="the token in this file")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    named = list(options.ids)
    if options.file:
        named += [str(token.peek(text)[1]["jti"]) for text in inv.path(options.file).read_text().split()]
    if not named:
        raise UsageError("name a token's id, or its file with -file", hint="`slotwise token list` shows ids")
    for token_id in named:
        revoked = token_pb2.RevokeTokenRequest(token_id=token_id)
        _call(inv.aimed(options.pool), lambda stub: stub.Revoke, revoked)
        inv.out(f"Token {token_id} is revoked.")
    return 0


# ------------------------------------------------------------------------------------------------ keys of the pool


def keys(args: list[str], inv: Invocation) -> int:
    """List, add and remove the pool's keys."""
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(inv, "token keys", "The pool's keys by id, the one that signs marked; on the central manager.")
    parser.add_argument("--rotate", "-rotate", action="store_true", help="make a new key, which signs in two minutes")
    parser.add_argument("--remove", "-remove", metavar="KEY", help="remove a key: what it signed is worth nothing then")
    options = parser.take(args)
    if options is None:
        return 0
    secrets = PoolSecrets(inv.home)
    if options.rotate:
        inv.out(f"New key {secrets.add_key()}; it signs in two minutes, when all hosts know it.")
    if options.remove:
        secrets.remove_key(options.remove)
        inv.out(f"Key {options.remove} is removed.")
    if options.rotate or options.remove:
        _tell_collector(inv)
    signs = secrets.signer().kid if secrets.is_central else ""
    for kid in sorted(secrets.trust().keys):
        inv.out(f"{'*' if kid == signs else ' '} {kid}")
    return 0


def _tell_collector(inv: Invocation) -> None:
    """A collector that has given up root reads the pool's private keys only when it starts: restart it."""
    from slotwise.cli.host.personal_pool import restart
    from slotwise.daemon import lock

    pid = lock.holder(inv.home, "collector")
    try:
        if pid is not None and os.geteuid() == 0 and Path(f"/proc/{pid}").stat().st_uid != 0:
            restart(["collector"], inv)
    except FileNotFoundError:
        return  # it has ended meanwhile


def upgrade(args: list[str], inv: Invocation) -> int:
    """Replace the one key of an old pool, and tokens that it signed."""
    import jwt

    from slotwise.config import load
    from slotwise.daemon.membership import is_central, prepare
    from slotwise.wire.keys import PoolSecrets
    from slotwise.wire.token import require_private, write_secret

    parser = Parser(
        inv,
        "token upgrade",
        "Replace the key that all hosts of an old pool share (HS256) by keys of the central manager; run it there, "
        "while the pool is down. Tokens in FILES are replaced by new ones, with an id and the same remaining lifetime.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tokens of the old kind")
    options = parser.take(args)
    if options is None:
        return 0
    secrets, home = PoolSecrets(inv.home), inv.home
    if not secrets.old_key.exists():
        inv.out(f"The pool at {home.root} has no key of the old kind.")
        return 0
    require_private(secrets.old_key)
    old = secrets.old_key.read_text().strip()
    config = load(None, subsystem="MASTER", env=inv.env, home=home)
    aside = secrets.old_key.with_name("pool.key.old")
    central = is_central(config)
    renewed: list[tuple[Path, Mapping[str, object]]] = []
    if central:
        for name in options.files:
            path = inv.path(name)
            try:
                claims = jwt.decode(path.read_text().strip(), old, algorithms=["HS256"], options={"verify_iat": False})
            except jwt.PyJWTError as error:
                raise DeniedError(f"{path}: {error}", hint="only valid tokens of this pool can be renewed") from None
            renewed.append((path, claims))
    elif options.files:
        raise DeniedError("only the central manager signs tokens", hint="run this there for files of tokens")
    secrets.old_key.rename(aside)
    try:
        prepare(secrets, config, config.get("FULL_HOSTNAME") or "")
    except SlotwiseError:
        aside.rename(secrets.old_key)
        raise
    now = time.time()
    for path, said in renewed:
        scopes = str(said.get("scope", "")).split()
        left = None if "exp" not in said else max(1.0, float(str(said["exp"])) - now)
        write_secret(path, secrets.mint(str(said["sub"]), scopes, now=now, lifetime_s=left) + "\n")
        inv.out(f"{path}: a new token for {said['sub']}")
    aside.unlink()
    (home.secrets / "token").unlink(missing_ok=True)
    if central:
        inv.out(
            f"The pool's key is {secrets.signer().kid}. Other hosts: `slotwise token upgrade`, then they join anew."
        )
    else:
        inv.out("The old key is gone. `slotwise up` asks the central manager for a place in the pool.")
    return 0


_VERBS: dict[str, Callable[[list[str], Invocation], int]] = {
    "create": create,
    "show": show,
    "list": list_,
    "fetch": fetch,
    "request": request,
    "requests": requests,
    "approve": approve,
    "auto-approve": auto_approve,
    "revoke": revoke,
    "keys": keys,
    "upgrade": upgrade,
}

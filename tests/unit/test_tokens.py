"""Tokens: who signs them, whom they stand for, and what is not one."""

import io
import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.collector.tokens import limit
from slotwise.config import load
from slotwise.daemon.membership import Trust
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome
from slotwise.wire import base64url, keys, socket_path, token
from slotwise.wire.credential import PROOF, HostCredential, TokenCredential, bearer
from slotwise.wire.gen import token_pb2
from slotwise.wire.keys import PoolSecrets, PoolTrust, SigningKey, mint, public_text
from slotwise.wire.security import METHOD_SCOPES, Authenticator, required_levels, revoked_by
from slotwise.wire.token import find_token, peek, token_directories, with_implied, write_secret

from tests.support import host

KEY, HOST, OTHER = SigningKey.generate(), SigningKey.generate(), SigningKey.generate()
TRUST = PoolTrust("here", {KEY.kid: KEY.public})
SOCKET = "unix:/run/schedd.sock"


def checks(trust: PoolTrust = TRUST) -> Authenticator:
    return Authenticator(lambda: trust, family=HOST.public, audiences=[SOCKET, "ap.example:9000"])


def made(key: SigningKey = KEY, identity: str = "ann@here", scopes: tuple[str, ...] = ("READ",), **more: Any) -> str:
    return mint(key, identity, scopes, **{"issued_at": 1, "issuer": "here", "audience": "here", **more})


def proof(key: SigningKey, target: str, levels: tuple[str, ...], word: str | None) -> str:
    more = {"host_token": word} if word else {}
    return mint(key, "condor@ep", levels, issued_at=time.time(), lifetime_s=60, audience=target, typ=PROOF, **more)


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    found = PoolHome(tmp_path / "pool")
    found.create()
    return found


def test_levels_imply_what_htcondor_says() -> None:
    """But for ADVERTISE_*, which do not imply READ, and the parts of NEGOTIATOR, which HTCondor does not have."""
    assert with_implied(["WRITE"]) == {"READ", "WRITE"}
    assert with_implied(["ADMINISTRATOR"]) == {"ADMINISTRATOR", "WRITE", "READ"}
    assert with_implied(["NEGOTIATOR"]) == {"NEGOTIATOR", "DRAIN", "WAKEUP", "READ"}
    assert with_implied(["CONFIG"]) == {"CONFIG", "READ"}
    assert with_implied(["ADVERTISE_STARTD"]) == {"ADVERTISE_STARTD"}
    assert with_implied(["OWNER", "RUN"]) == frozenset()


def test_a_token_says_who_and_what() -> None:
    identity = checks().identity(made(scopes=("WRITE",)))
    assert identity.name == "ann@here" and identity.user == "ann" and identity.domain == "here"
    assert identity.method == "IDTOKENS" and len(identity.token_id) == 32 and identity.expires is None
    assert identity.may("READ") and identity.may("DAEMON", "WRITE")
    assert not identity.may("DAEMON") and not identity.may("ADMINISTRATOR")


_HS256 = jwt.encode({"sub": "ann@here", "scope": "ADMINISTRATOR"}, "a key that every host of the pool had", "HS256")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "not valid"),
        ("nonsense", "not valid"),
        (made(OTHER), "no key of this pool"),
        (made(lifetime_s=5), "expired"),
        (made(audience="elsewhere"), "udience"),
        (made(issuer="elsewhere"), "issuer"),
        (made(bound_to=public_text(HOST.public)), "bound to a host"),
        (jwt.encode({"sub": "ann@here", "scope": "ADMINISTRATOR"}, "", algorithm="none"), "not valid"),
        (jwt.encode({"sub": "ann@here"}, "x" * 32, algorithm="HS256", headers={"kid": KEY.kid}), "old kind"),
        (_HS256, "slotwise token upgrade"),
        (jwt.encode({"scope": "READ", "aud": "here"}, KEY.private, "EdDSA", headers={"kid": KEY.kid}), "sub"),
    ],
    ids=[
        "empty",
        "no token",
        "other pool",
        "expired",
        "audience",
        "issuer",
        "bound",
        "unsigned",
        "confused",
        "old",
        "nobody",
    ],
)
def test_a_bad_token_is_nobody(bad: str, why: str) -> None:
    with pytest.raises(UnauthenticatedError) as refused:
        checks().identity(bad)
    assert why in str(refused.value)


def test_a_public_key_does_not_sign() -> None:
    """The old confusion: a token signed with HMAC, by a public key that everybody knows."""
    forged = jwt.encode({"sub": "root@here", "aud": "here"}, public_text(KEY.public), "HS256", headers={"kid": KEY.kid})
    with pytest.raises(UnauthenticatedError):
        checks().identity(forged)


def test_a_tampered_token_is_nobody() -> None:
    head, body, signature = made().split(".")
    other = made(identity="root@here", scopes=("ADMINISTRATOR",)).split(".")[1]
    assert body != other
    with pytest.raises(UnauthenticatedError):
        checks().identity(f"{head}.{other}.{signature}")


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(DeniedError, match="unknown scope OWNER"):
        made(scopes=("OWNER",))


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_that_is_nested_deeply_is_nobody(part: int) -> None:
    nested = base64url.encoded(b"[" * 3000 + b"]" * 3000)
    parts = made().split(".")
    parts[part] = nested
    for read in (checks().identity, peek):
        with pytest.raises(UnauthenticatedError):
            read(".".join(parts))


# ---- proofs of hosts


def word(*levels: str, **more: Any) -> str:
    return made(identity="condor@ep", scopes=levels, bound_to=public_text(HOST.public), **more)


def test_a_proof_counts_at_its_address_for_what_the_pool_granted_and_its_daemon_needs() -> None:
    shown = proof(
        HOST, "AP.example:9000", ("ADVERTISE_STARTD", "NEGOTIATOR"), word("ADVERTISE_STARTD", "ADVERTISE_MASTER")
    )
    identity = checks().identity(shown)
    assert identity.name == "condor@ep" and identity.levels == {"ADVERTISE_STARTD"}


@pytest.mark.parametrize(
    "shown",
    [
        proof(HOST, "evil.example:9000", ("NEGOTIATOR",), word("NEGOTIATOR")),
        proof(HOST, "unix:/tmp/evil.sock", ("ADMINISTRATOR",), None),
        proof(OTHER, SOCKET, ("ADVERTISE_STARTD",), word("ADVERTISE_STARTD")),
        proof(OTHER, SOCKET, ("ADMINISTRATOR",), None),
        proof(HOST, SOCKET, ("ADVERTISE_STARTD",), word("ADVERTISE_STARTD", lifetime_s=5)),
        proof(
            HOST, SOCKET, ("ADMINISTRATOR",), made(HOST, scopes=("ADMINISTRATOR",), bound_to=public_text(HOST.public))
        ),
        proof(HOST, SOCKET, ("ADMINISTRATOR",), made(scopes=("ADMINISTRATOR",))),
        mint(HOST, "condor@ep", ["ADMINISTRATOR"], issued_at=1, audience=SOCKET),
    ],
    ids=[
        "for another",
        "family of another socket",
        "another's key",
        "another host's family",
        "expired grant",
        "own grant",
        "a bearer's token",
        "no proof",
    ],
)
def test_a_bad_proof_is_nobody(shown: str) -> None:
    with pytest.raises(UnauthenticatedError):
        checks().identity(shown)


def test_a_hosts_own_daemons_are_a_family() -> None:
    identity = checks().identity(proof(HOST, SOCKET, ("ADMINISTRATOR", "DAEMON"), None))
    assert identity.method == "FAMILY" and identity.may("ADMINISTRATOR")


def test_a_daemon_shows_nothing_before_it_has_joined(tmp_path: Path) -> None:
    shown = HostCredential("condor@ep", HOST, lambda: None, ["ADVERTISE_STARTD"], time.time)
    assert shown.metadata(f"unix:{tmp_path}/none.sock") == ()


def test_a_token_that_stands_in_is_shown_to_the_collector_alone(tmp_path: Path) -> None:
    collector = f"unix:{tmp_path}/collector.sock"
    given = {collector: "given"}.get
    shown = HostCredential("condor@ep", HOST, lambda: None, ["ADVERTISE_STARTD"], time.time, given)
    assert shown.metadata(collector) == (("authorization", "Bearer given"),)
    assert shown.metadata(f"unix:{tmp_path}/schedd.sock") == ()
    joined = HostCredential("condor@ep", HOST, lambda: word("ADVERTISE_STARTD"), ["ADVERTISE_STARTD"], time.time, given)
    assert joined.metadata(collector) != shown.metadata(collector)


def test_a_proof_for_an_address_with_a_key_is_worth_nothing_where_another_key_is(tmp_path: Path) -> None:
    shown = HostCredential("condor@ep", HOST, lambda: word("ADVERTISE_STARTD"), ["ADVERTISE_STARTD"], time.time)
    ((_, text),) = shown.metadata("ep.example:9618?key=abc")
    assert peek(text.removeprefix("Bearer "))[1]["aud"] == "ep.example:9618?key=abc"


def test_a_proof_is_made_once_for_an_address_and_anew_with_another_grant(tmp_path: Path) -> None:
    grants = [word("ADVERTISE_STARTD")]
    shown = HostCredential("condor@ep", HOST, lambda: grants[-1], ["ADVERTISE_STARTD"], time.time)
    first = shown.metadata(f"unix:{tmp_path}/a.sock")
    assert first and shown.metadata(f"unix:{tmp_path}/a.sock") == first != shown.metadata(f"unix:{tmp_path}/b.sock")
    grants.append(word("ADVERTISE_STARTD"))
    assert shown.metadata(f"unix:{tmp_path}/a.sock") != first


# ---- where tokens are sent


def test_no_token_is_sent_where_others_may_read_it(tmp_path: Path) -> None:
    for target in ("127.0.0.1:9618", "cm.example:9618"):
        with pytest.raises(DeniedError, match="not reached with TLS"):
            TokenCredential("secret").metadata(target)
    (tmp_path / "file").touch()
    with pytest.raises(DeniedError):
        TokenCredential("secret").metadata(f"unix:{tmp_path}/file")


def test_no_token_is_sent_to_a_socket_that_another_user_may_replace(tmp_path: Path) -> None:
    import socket

    place = tmp_path / "open"
    place.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(socket_path.usable(place / "s"))
        assert TokenCredential("secret").metadata(f"unix:{place}/s") == bearer("secret")
        place.chmod(0o777)
        with pytest.raises(DeniedError, match="in its place"):
            TokenCredential("secret").metadata(f"unix:{place}/s")


@host.needs(host.root)
def test_no_token_is_sent_to_another_users_socket(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(socket_path.usable(tmp_path / "s"))
        os.chown(tmp_path / "s", 12345, 12345)
        with pytest.raises(DeniedError, match="12345"):
            TokenCredential("secret").metadata(f"unix:{tmp_path}/s")


# ---- keys and revocation


def test_all_who_make_the_key_at_once_get_the_same(home: PoolHome) -> None:
    secrets = PoolSecrets(home)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: secrets.create("here"), range(8)))
    (path,) = secrets.signing
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(secrets.trust().keys) == [path.stem] == [secrets.signer().kid]
    assert secrets.trust().pool == "here"
    assert sorted(entry.name for entry in home.secrets.iterdir()) == ["pool.json", "signing"]


def test_keys_are_listed_for_programs(home: PoolHome) -> None:
    secrets = PoolSecrets(home)
    secrets.create("here")
    second = secrets.add_key()
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(home.root, {"SLOTWISE_HOME": str(home.root)}, io.StringIO(), out, err)
    assert dispatch(["token", "keys", "--json"], inv) == 0
    listed = {one["key"]: one["signs"] for one in json.loads(out.getvalue())}
    assert listed == {secrets.signer().kid: True, second: False}


def test_keys_are_replaced_while_the_pool_runs(home: PoolHome) -> None:
    secrets = PoolSecrets(home)
    secrets.create("here")
    authenticator = Authenticator(Trust(secrets))
    now = time.time()
    first, old = secrets.signer().kid, secrets.mint("ann@here", ["READ"], now=now)
    second = secrets.add_key()
    assert secrets.signer().kid == first, "hosts have not heard of the new key yet"
    assert secrets.signer(now + 600).kid == second
    fresh = secrets.mint("ann@here", ["READ"], now=now + 600)
    authenticator.refresh()
    assert authenticator.identity(old).name == authenticator.identity(fresh).name == "ann@here"
    secrets.remove_key(first)
    authenticator.refresh()
    assert authenticator.identity(fresh).name == "ann@here"
    with pytest.raises(UnauthenticatedError):
        authenticator.identity(old)
    with pytest.raises(DeniedError, match="only key"):
        secrets.remove_key(second)


def test_a_revoked_token_is_nobody() -> None:
    shown = made()
    token_id = str(token.peek(shown)[1]["jti"])
    now = [TRUST]
    authenticator = Authenticator(lambda: now[0])
    assert authenticator.identity(shown).name == "ann@here"
    now[0] = PoolTrust("here", TRUST.keys, {token_id: 1})
    authenticator.refresh()
    with pytest.raises(UnauthenticatedError, match="revoked"):
        authenticator.identity(shown)
    for expression, revoked in (('sub == "ann@here"', True), ("iat < 100", True), ('sub == "bob@here"', False)):
        now[0] = PoolTrust("here", TRUST.keys, {}, expression)
        authenticator.refresh()
        if revoked:
            with pytest.raises(UnauthenticatedError, match="revoked"):
                authenticator.identity(shown)
        else:
            assert authenticator.identity(shown).name == "ann@here"


def test_a_revocation_expression_that_cannot_be_read_revokes_all() -> None:
    assert revoked_by("this is (not one", {"sub": "ann@here"})
    assert not revoked_by("nothing == 1", {"sub": "ann@here"})
    # The old syntax of ClassAds, as HTCondor reads it: a backslash in a string is itself.
    assert revoked_by(r'regexp("@here\.example$", sub)', {"sub": "ann@here.example"})
    assert not revoked_by(r'regexp("@here\.example$", sub)', {"sub": "ann@here-example"})


def test_a_token_of_a_pool_that_the_host_has_just_joined_counts_at_once() -> None:
    known = [PoolTrust()]
    auth = Authenticator(lambda: known[0], family=HOST.public, audiences=[SOCKET])
    with pytest.raises(UnauthenticatedError):
        auth.identity(made())
    known[0] = TRUST
    assert auth.identity(made()).name == "ann@here"


def test_what_hosts_trust_travels_as_text() -> None:
    trust = PoolTrust("here", {KEY.kid: KEY.public}, {"abc": 5}, "iat < 1")
    back = PoolTrust.of_text(trust.text())
    assert (back.pool, back.revoked, back.revocation_expr) == ("here", {"abc": 5}, "iat < 1")
    assert public_text(back.keys[KEY.kid]) == public_text(KEY.public)
    assert "d" not in json.loads(trust.text())["keys"][0], "a private key would have a member d"
    for bad in ("", "[]", "{}", '{"pool": "x", "keys": [{"kid": "a", "x": "b"}]}'):
        with pytest.raises(UnauthenticatedError):
            PoolTrust.of_text(bad)


def test_only_the_central_manager_signs(home: PoolHome) -> None:
    with pytest.raises(DeniedError, match="only the central manager"):
        PoolSecrets(home).mint("ann@here", ["READ"], now=1)


def test_an_old_pool_is_refused_with_the_remedy(home: PoolHome) -> None:
    token.write_secret(home.secrets / "pool.key", "a key that every host of the pool has")
    with pytest.raises(DeniedError, match="slotwise token upgrade"):
        PoolSecrets(home).create("here")


# ---- files


def test_a_named_token_file_must_be_readable(home: PoolHome) -> None:
    assert token.find_token(home, {}) is None
    with pytest.raises(DeniedError, match="cannot be read"):
        token.find_token(home, {"SLOTWISE_TOKEN_FILE": str(home.root / "none")})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_may_touch_is_refused_with_the_remedy(home: PoolHome, mode: int) -> None:
    key, shown = home.secrets / "host.pem", home.root / "tokens.d" / "mine"
    PoolSecrets(home).host_key()
    shown.parent.mkdir()
    token.write_secret(shown, "a token")
    assert token.find_token(home, {}) == "a"
    for path in (key, shown):
        path.chmod(mode)
    for ask in (lambda: keys.SigningKey.read(key), lambda: token.find_token(home, {})):
        with pytest.raises(DeniedError, match="chmod 600"):
            ask()


def test_methods_nobody_listed_need_the_highest_level() -> None:
    assert required_levels("/slotwise.v1.Unheard/Of") == ("ADMINISTRATOR",)
    assert required_levels("/slotwise.v1.Schedd/Query") == ("READ",)
    assert required_levels("/slotwise.v1.Schedd/Submit") == ("WRITE",)


def test_every_service_has_a_level() -> None:
    from slotwise.wire.gen import (
        collector_pb2,
        daemon_pb2,
        negotiator_pb2,
        node_pb2,
        schedd_pb2,
        shared_port_pb2,
        startd_pb2,
        starter_pb2,
        token_pb2,
    )

    files = (
        collector_pb2,
        daemon_pb2,
        negotiator_pb2,
        node_pb2,
        schedd_pb2,
        shared_port_pb2,
        startd_pb2,
        starter_pb2,
        token_pb2,
    )
    services = {s.full_name for f in files for s in f.DESCRIPTOR.services_by_name.values()}
    assert services <= set(METHOD_SCOPES)
    methods = {
        f"{s.full_name}/{m.name}" for f in files for s in f.DESCRIPTOR.services_by_name.values() for m in s.methods
    }
    assert {name for name in METHOD_SCOPES if "/" in name} <= methods


def test_people_s_tokens_that_are_too_old_are_refused() -> None:
    began = now = float(int(time.time()))
    checks = Authenticator(lambda: TRUST, now=lambda: now)
    old = made(issued_at=now - 5000)
    assert checks.identity(old).expires is None
    checks.max_age_s = 6000
    checks.forget()
    assert checks.identity(old).expires == began + 1000
    now += 1500
    with pytest.raises(UnauthenticatedError, match="older than SEC_TOKEN_MAX_AGE"):
        checks.identity(old)
    short = made(issued_at=now, lifetime_s=10)
    assert checks.identity(short).expires == now + 10


def test_requests_are_limited_to_some_levels() -> None:
    def left(*scopes: str) -> list[str]:
        asked = token_pb2.TokenRequest(scopes=scopes)
        limit(asked, ["READ", "WRITE"])
        return list(asked.scopes)

    assert left("READ", "ADMINISTRATOR") == ["READ"]
    assert left() == ["READ", "WRITE"]
    with pytest.raises(DeniedError, match="eliminated by SEC_TOKEN_REQUEST_LIMITS"):
        left("ADMINISTRATOR", "DAEMON")


def test_directories_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, env = PoolHome(tmp_path / "home"), {"HOME": str(tmp_path)}

    def places(text: str) -> list[Path]:
        (tmp_path / "condor_config").write_text(text)
        return token_directories(home, env, load(tmp_path / "condor_config", env={}))

    usual = [tmp_path / "home" / "tokens.d", tmp_path / ".slotwise" / "tokens.d"]
    assert places("") == usual
    system = f"SEC_TOKEN_SYSTEM_DIRECTORY = {tmp_path}/system\n"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert places(system) == [usual[0], tmp_path / "system"]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert places(system) == usual
    assert places(f"SEC_TOKEN_DIRECTORY = {tmp_path}/own\n{system}") == [tmp_path / "own"]
    (tmp_path / "own").mkdir()
    write_secret(tmp_path / "own" / "a", "a.b.c")
    assert find_token(home, env, lambda: load(tmp_path / "condor_config", env={})) == "a.b.c"
    assert find_token(home, env) is None


def test_a_token_file_is_named_from_the_callers_directory(tmp_path: Path) -> None:
    # The command server has a directory of its own.
    write_secret(tmp_path / "bob.token", "a.b.c")
    env = {"SLOTWISE_HOME": str(tmp_path / "home"), "SLOTWISE_TOKEN_FILE": "bob.token"}
    inv = Invocation(cwd=tmp_path, env=env, stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    assert inv.proves_itself()
    with pytest.raises(DeniedError, match="no token is sent to there:1"):
        inv.open("there:1").unary_unary("/x/y")(b"")

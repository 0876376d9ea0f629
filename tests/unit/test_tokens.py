"""Tokens and scopes."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome
from slotwise.wire import token
from slotwise.wire.security import METHOD_SCOPES, Authenticator, required_scope

KEY = "k" * 64


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path / "pool")
    made.create()
    return made


def test_scopes_include_lower_ones() -> None:
    made = token.mint(KEY, "ann@here", ["WRITE"], issued_at=1)
    identity, lasting = token.verify(KEY, made)
    assert identity.name == "ann@here" and identity.user == "ann" and lasting
    assert identity.may("READ") and identity.may("WRITE")
    assert not identity.may("DAEMON") and not identity.may("ADMINISTRATOR")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "nonsense",
        token.mint("another key that is long enough for it", "ann@here", ["READ"], issued_at=1),
        token.mint(KEY, "ann@here", ["READ"], issued_at=1, lifetime_s=5),
        jwt.encode({"sub": "ann@here", "scope": "ADMINISTRATOR"}, "", algorithm="none"),
        jwt.encode({"scope": "READ"}, KEY, algorithm="HS256"),
    ],
    ids=["empty", "no token", "other pool", "expired", "unsigned", "nobody"],
)
def test_a_bad_token_is_nobody(bad: str) -> None:
    with pytest.raises(UnauthenticatedError):
        Authenticator(KEY).identity(bad)


def test_a_tampered_token_is_nobody() -> None:
    head, body, signature = token.mint(KEY, "ann@here", ["READ"], issued_at=1).split(".")
    other = token.mint(KEY, "root@here", ["ADMINISTRATOR"], issued_at=1).split(".")[1]
    assert body != other
    with pytest.raises(UnauthenticatedError):
        Authenticator(KEY).identity(f"{head}.{other}.{signature}")


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(DeniedError, match="unknown scope OWNER"):
        token.mint(KEY, "ann@here", ["OWNER"], issued_at=1)


def test_all_who_make_the_key_at_once_get_the_same(home: PoolHome) -> None:
    with ThreadPoolExecutor(1) as pool:
        keys = set(pool.map(lambda _: token.pool_key(home, create=True), range(8)))
    assert len(keys) == 1 and len(keys.pop()) == 64
    assert stat.S_IMODE((home.secrets / "pool.key").stat().st_mode) == 0o600
    assert [entry.name for entry in home.secrets.iterdir()] == ["pool.key"]


def test_a_named_token_file_must_be_readable(home: PoolHome) -> None:
    assert token.find_token(home, {}) is None
    with pytest.raises(DeniedError, match="cannot be read"):
        token.find_token(home, {"SLOTWISE_TOKEN_FILE": str(home.root / "none")})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_may_touch_is_refused_with_the_remedy(home: PoolHome, mode: int) -> None:
    key, shown = home.secrets / "pool.key", home.secrets / "token"
    token.pool_key(home, create=True)
    token.write_secret(shown, "a token")
    assert token.find_token(home, {}) == "a token"
    for path in (key, shown):
        path.chmod(mode)
    for ask in (lambda: token.pool_key(home), lambda: token.find_token(home, {})):
        with pytest.raises(DeniedError, match="chmod 600"):
            ask()


def test_methods_nobody_listed_need_the_highest_scope() -> None:
    assert required_scope("/slotwise.v1.Unheard/Of") == "ADMINISTRATOR"
    assert required_scope("/slotwise.v1.Schedd/Query") == "READ"
    assert required_scope("/slotwise.v1.Schedd/Submit") == "WRITE"


def test_every_service_has_a_scope() -> None:
    from slotwise.wire.gen import (
        collector_pb2,
        daemon_pb2,
        negotiator_pb2,
        schedd_pb2,
        startd_pb2,
        starter_pb2,
    )

    files = (collector_pb2, daemon_pb2, negotiator_pb2, schedd_pb2, startd_pb2, starter_pb2)
    services = {s.full_name for f in files for s in f.DESCRIPTOR.services_by_name.values()}
    assert services <= set(METHOD_SCOPES)
    methods = {
        f"{s.full_name}/{m.name}" for f in files for s in f.DESCRIPTOR.services_by_name.values() for m in s.methods
    }
    assert {name for name in METHOD_SCOPES if "/" in name} <= methods

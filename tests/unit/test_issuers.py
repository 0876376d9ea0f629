"""Tokens of other issuers: a local one signs with ES256 and RS256."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from slotwise.config import Config, load
from slotwise.errors import ConfigError, UnauthenticatedError
from slotwise.wire import issuers
from slotwise.wire.keys import PoolTrust
from slotwise.wire.security import Authenticator
from slotwise.wire.token import with_implied

ISSUER, AUDIENCE = "https://tokens.example.org", "https://ap.example.org"
EC, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def trusted(tmp_path: Path, lines: str, *, hash_keys: bool = True, **knobs: str) -> Config:
    keys = [
        {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "e", "alg": "ES256"},
        {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "r"},
    ]
    (tmp_path / "issuers.json").write_text(json.dumps({ISSUER: {"keys": keys}}))
    (tmp_path / "map").write_text(lines)
    texts = {
        "SLOTWISE_TRUSTED_ISSUERS": str(tmp_path / "issuers.json"),
        "SLOTWISE_SCITOKENS_AUDIENCE": AUDIENCE,
        "CERTIFICATE_MAPFILE": str(tmp_path / "map"),
        "CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS": str(hash_keys),
        **knobs,
    }
    for name in ("issuers.json", "map"):
        (tmp_path / name).chmod(0o644)
    path = tmp_path / "condor_config"
    path.write_text("".join(f"{name} = {value}\n" for name, value in texts.items()))
    return load(str(path), subsystem="SCHEDD", env={})


def signed(key: Any = EC, alg: str = "ES256", kid: str = "e", **claims: Any) -> str:
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "bob", "scope": "condor:/WRITE", "exp": int(time.time()) + 60}
    said |= claims
    return jwt.encode({k: v for k, v in said.items() if v is not None}, key, algorithm=alg, headers={"kid": kid})


LINES = (
    f"SCITOKENS {ISSUER},admin operator@example.org\n"
    "SCITOKENS /^https:\\/\\/tokens\\.example\\.org,(\\w+)$/ \\1@sci.example.org\n"
)


@pytest.mark.parametrize(("key", "alg", "kid"), [(EC, "ES256", "e"), (RSA, "RS256", "r")])
def test_a_token_of_a_trusted_issuer_is_a_user_of_the_map(tmp_path: Path, key: Any, alg: str, kid: str) -> None:
    found = issuers.read(trusted(tmp_path, LINES))
    assert found is not None
    token = signed(key, alg, kid, jti="7")
    assert found.knows(token)
    who = found.identity(token)
    assert (who.name, who.method, who.token_id) == ("bob@sci.example.org", "SCITOKENS", "7")
    assert who.levels == with_implied(["WRITE"]) and who.expires is not None
    assert found.identity(signed(key, alg, kid, sub="admin")).name == "operator@example.org", "the first line wins"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "https://other.example.org"}, "[Aa]udience"),
        ({"aud": None}, "aud"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"iss": "https://evil.example.org"}, "no key"),
        ({"sub": "bob,eve"}, "no line of CERTIFICATE_MAPFILE"),
        ({"nbf": 2**33}, "not yet valid"),
    ],
)
def test_what_is_not_for_us_is_refused(tmp_path: Path, claims: dict[str, Any], reason: str) -> None:
    found = issuers.read(trusted(tmp_path, LINES))
    assert found is not None
    with pytest.raises(UnauthenticatedError, match=reason):
        found.identity(signed(**claims))


def test_signatures_of_others_are_refused(tmp_path: Path) -> None:
    found = issuers.read(trusted(tmp_path, LINES))
    assert found is not None
    forged = [
        signed(OTHER),
        signed(OTHER, kid="x"),
        signed(RSA, "RS256", "e"),
        signed(RSA, "PS256", "r"),
        signed("a secret that anybody may choose, and long enough", "HS256"),
        signed(None, "none"),
        signed()[:-8] + "AAAAAAAA",
    ]
    for token in forged:
        with pytest.raises(UnauthenticatedError):
            found.identity(token)


@pytest.mark.parametrize(
    ("scope", "levels"),
    [
        ("condor:/READ", ["READ"]),
        ("condor:/READ condor:/ADVERTISE_STARTD", ["READ", "ADVERTISE_STARTD"]),
        ("compute.read compute.create", ["WRITE"]),
        (["compute.modify"], ["WRITE"]),
        ("storage.read:/ condor:/NONSENSE condor:/", []),
        (None, []),
    ],
)
def test_scopes_are_levels(scope: Any, levels: list[str]) -> None:
    assert issuers.levels_of(scope) == with_implied(levels)


def test_without_hash_keys_principals_are_patterns(tmp_path: Path) -> None:
    found = issuers.read(trusted(tmp_path, f"SCITOKENS ^{ISSUER},(.*)$ \\1@all\n", hash_keys=False))
    assert found is not None and found.identity(signed()).name == "bob@all"


def test_files_that_cannot_be_relied_on_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="AUDIENCE is not"):
        issuers.read(trusted(tmp_path, LINES, SLOTWISE_SCITOKENS_AUDIENCE=""))
    config = trusted(tmp_path, LINES)
    (tmp_path / "map").chmod(0o666)
    with pytest.raises(ConfigError, match="others may write"):
        issuers.read(config)
    with pytest.raises(ConfigError, match="line 2: the principal is not a regular expression"):
        issuers.read(trusted(tmp_path, "# map\nSCITOKENS ( x@y\n", hash_keys=False))
    config = trusted(tmp_path, LINES)
    (tmp_path / "issuers.json").write_text(json.dumps({ISSUER: {"keys": [{"kty": "oct", "k": "AAAA"}]}}))
    with pytest.raises(ConfigError, match="symmetric"):
        issuers.read(config)
    assert issuers.read(trusted(tmp_path, LINES, SLOTWISE_TRUSTED_ISSUERS="")) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SCITOKENS /(/ x@y", "not a regular expression"),
        (f"SCITOKENS {ISSUER},bob", "a line is METHOD PRINCIPAL"),
        ("SSL /C=US/CN=bob bob@y", "goes between quotes"),
        ("SSL CN=Bob Miller bob@y", "goes between quotes"),
        ("SSL", "a line is METHOD PRINCIPAL"),
    ],
)
def test_a_line_that_maps_nobody_is_refused_with_its_place(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"map, line 2: .*{reason}"):
        issuers.read(trusted(tmp_path, f"# map\n{line}\n"))


@pytest.mark.parametrize(
    ("canonical", "user"),
    [
        ("bob", "bob@here.example"),
        ("bob@y", "bob@y"),
        ("b@o@b", None),
        ("@y", None),
        ('"b ob@y"', None),
        ("bob@y/z", None),
    ],
)
def test_what_a_line_makes_of_a_principal_is_a_user(tmp_path: Path, canonical: str, user: str | None) -> None:
    # HTCondor takes UID_DOMAIN where a line names no domain.
    found = issuers.read(trusted(tmp_path, f"SCITOKENS {ISSUER},bob {canonical}\n", UID_DOMAIN="here.example"))
    assert found is not None
    if user is not None:
        assert found.identity(signed()).name == user
        return
    with pytest.raises(UnauthenticatedError, match="which is not user@domain"):
        found.identity(signed())


def test_the_map_file_includes_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name, line in (("more/20", "carol"), ("more/10", "bob"), ("one", "ann")):
        (tmp_path / name).write_text(f"# {name}\nSCITOKENS {ISSUER},{line} {line}@{name.replace('/', '')}\n")
    config = trusted(tmp_path, f"@include one\n@include {tmp_path}/more\nSCITOKENS {ISSUER},bob last@here\n")
    found = issuers.read(config)
    assert found is not None
    assert [found.identity(signed(sub=who)).name for who in ("ann", "bob", "carol")] == [
        "ann@one", "bob@more10", "carol@more20",
    ]  # fmt: skip
    (tmp_path / "one").write_text("@include more\n")
    with pytest.raises(ConfigError, match="one, line 1: @include is not allowed"):
        issuers.read(config)
    (tmp_path / "one").write_text("\nSCITOKENS ( bob@here\n")
    with pytest.raises(ConfigError, match="one, line 2: the principal"):
        issuers.read(trusted(tmp_path, "@include one\n", hash_keys=False))
    (tmp_path / "one").write_text("")
    config = trusted(tmp_path, "@include one\n@include more\n")
    for writable in ("one", "more", "more/10"):
        mode = (tmp_path / writable).stat().st_mode
        (tmp_path / writable).chmod(mode | 0o002)
        with pytest.raises(ConfigError, match="others may write"):
            issuers.read(config)
        (tmp_path / writable).chmod(mode)
    with pytest.raises(ConfigError, match="there-is-none cannot be read"):
        issuers.read(trusted(tmp_path, "@include there-is-none\n"))


def test_a_token_of_an_issuer_is_revoked_by_its_id(tmp_path: Path) -> None:
    trust = [PoolTrust("here")]
    checks = Authenticator(lambda: trust[0])
    checks.issuers = issuers.read(trusted(tmp_path, LINES))
    token, other = signed(jti="7"), signed(jti="8")
    assert checks.identity(token).name == checks.identity(other).name == "bob@sci.example.org"
    trust[0] = PoolTrust("here", revoked={"7": 1})
    checks.refresh()
    with pytest.raises(UnauthenticatedError, match="the token 7 of bob@sci"):
        checks.identity(token)
    assert checks.identity(other).name == "bob@sci.example.org"

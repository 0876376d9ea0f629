"""Credentials: their names, what a submission may ask for, when tokens are renewed, what they say."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from slotwise.classad import ExprTree
from slotwise.errors import DeniedError, HostError, NotFoundError, SlotwiseError, UsageError
from slotwise.model.credential_names import CredentialName, CredentialRequest, requests_of
from slotwise.schedd.credentials import issuer, oauth_client, rules
from slotwise.schedd.credentials.rules import Match
from slotwise.schedd.credentials.settings import (
    ClientSettings,
    CredentialSettings,
    IssuerSettings,
    Kind,
    RequestDefaults,
)
from slotwise.schedd.credentials.store import LARGEST, CredentialStore, StoredFile
from slotwise.submit import parse

BOX = CredentialName.of("box")


def settings(**changes: object) -> CredentialSettings:
    given: dict[str, object] = {
        "directory": Path("/nowhere"),
        "issuers": {"scitokens": IssuerSettings("https://here")},
        "clients": {"gdrive": ClientSettings("id")},
    }
    return CredentialSettings(**{**given, **changes})  # type: ignore[arg-type]


# ---- names


def test_names_of_credentials_are_parts_of_names_of_files() -> None:
    assert CredentialName.needed("box*read, scitokens  box*read") == (
        CredentialName.of("box", "read"),
        CredentialName.of("scitokens"),
    )
    assert CredentialName.of("box", "read").stem == "box_read"
    for service in ("", "..", ".hidden", "a/b", "a b", "a\0", "é", "x" * 101, "a*b"):
        with pytest.raises(UsageError):
            CredentialName.of(service)
    with pytest.raises(UsageError):
        CredentialName.of("box", "../other")


def test_requests_are_read_with_what_they_ask_for() -> None:
    box, plain = requests_of("box*a,plain", "box&handle=a&scopes=read:/,write:/&audience=https://x")
    assert box == CredentialRequest(CredentialName.of("box", "a"), "read:/,write:/", "https://x")
    assert plain == CredentialRequest(CredentialName.of("plain"))
    with pytest.raises(UsageError):
        requests_of("box", "box&exec=true")


# ---- submit descriptions


def made(*statements: str, tmp_path: Path) -> dict[str, object]:
    text = "\n".join(["executable = /bin/true", *statements, "queue", ""])
    found = parse(text, filename="job.sub", cwd=tmp_path, env={}, owner="ann", now=1_700_000_000, check_support=True)
    assert found.warnings == ()
    return {name: found.clusters[0].ad.get(name) for name in ("OAuthServicesNeeded", "OAuthRequests")}


def test_a_description_names_services_and_handles(tmp_path: Path) -> None:
    """Names and their order follow HTCondor's ``SubmitHash::NeedsOAuthServices``."""
    assert made("use_oauth_services = scitokens box", tmp_path=tmp_path)["OAuthServicesNeeded"] == "box,scitokens"
    with_handles = made(
        "use_oauth_services = box, gdrive",
        "box_oauth_permissions_public = read:/public",
        "BOX_OAUTH_PERMISSIONS_private = read:/private, write:/private",
        "box_oauth_resource_private = https://box.com",
        "gdrive_oauth_permissions = all",
        tmp_path=tmp_path,
    )
    assert with_handles == {
        "OAuthServicesNeeded": "box*private,box*public,gdrive",
        "OAuthRequests": "box&handle=private&scopes=read:/private,write:/private&audience=https://box.com "
        "box&handle=public&scopes=read:/public gdrive&scopes=all",
    }
    assert made(tmp_path=tmp_path)["OAuthServicesNeeded"] is None


@pytest.mark.parametrize(
    "statements",
    [
        ["use_oauth_services = ../x"],
        ["use_oauth_services = box", "box_oauth_permissions_a/b = x"],
        ["use_oauth_services = box", "box_oauth_permissions = a&audience=b"],
    ],
)
def test_names_that_cannot_be_files_are_refused(statements: list[str], tmp_path: Path) -> None:
    with pytest.raises(SlotwiseError, match=r"job\.sub:"):
        made(*statements, tmp_path=tmp_path)


# ---- rules


def test_what_makes_the_tokens_of_a_service() -> None:
    here = settings()
    assert [here.kind(name) for name in ("scitokens", "GDrive", "other")] == [Kind.LOCAL, Kind.OAUTH2, Kind.STORED]
    assert settings(superusers=("storer", "*@cern.ch")).is_superuser("storer@here")
    assert not settings(superusers=("*@cern.ch",)).is_superuser("storer@here")


def test_requests_get_the_administrators_defaults() -> None:
    here = settings(defaults={"box": RequestDefaults("read", "https://box", must_say_scopes=False)})
    assert rules.completed([CredentialRequest(BOX)], 5, here) == [CredentialRequest(BOX, "read", "https://box")]
    assert rules.completed([CredentialRequest(BOX, "all")], 5, here) == [CredentialRequest(BOX, "all", "https://box")]


@pytest.mark.parametrize(
    ("request_", "universe", "changes", "why"),
    [
        (CredentialRequest(BOX), 5, {"directory": None}, "keeps no credentials"),
        (CredentialRequest(BOX), 12, {}, "local universe"),
        (CredentialRequest(BOX), 5, {"defaults": {"box": RequestDefaults(must_say_scopes=True)}},
         "You must specify box_OAUTH_PERMISSIONS to use OAuth service box"),
        (CredentialRequest(CredentialName.of("scitokens", "a")), 5, {}, "can't have a handle"),
        (CredentialRequest(CredentialName.of("scitokens"), "read:/"), 5, {}, "user-provided scope"),
        (CredentialRequest(BOX, options="x"), 5, {}, "storer"),
    ],
)  # fmt: skip
def test_requests_that_nothing_can_meet(
    request_: CredentialRequest, universe: int, changes: dict[str, object], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        rules.completed([request_], universe, settings(**changes))


def test_a_stored_credential_fits_the_request_that_it_was_stored_for() -> None:
    top = b'{"refresh_token": "r", "scopes": "a, b", "audience": "x"}'
    assert rules.matches(top, CredentialRequest(BOX, "a,b", "x")) is Match.FITS
    assert rules.matches(top, CredentialRequest(BOX, "a", "x")) is Match.DIFFERS
    assert rules.matches(top, CredentialRequest(BOX)) is Match.DIFFERS
    assert rules.matches(b"bare", CredentialRequest(BOX, "a")) is Match.UNREADABLE


def test_tokens_are_renewed_after_half_of_their_time() -> None:
    timed = StoredFile(b'{"access_token": "a", "expires_in": 100}', 1000.0)
    assert not rules.is_due(timed, None, 1049.0) and rules.is_due(timed, None, 1050.0)
    assert rules.is_due(timed, None, 990.0), "the clock was put back"
    assert rules.is_due(None, None, 0.0)
    bare = StoredFile(b"token\n", 1000.0)
    assert not rules.is_due(bare, 60.0, 1029.0) and rules.is_due(bare, 60.0, 1030.0)
    for strange in (b'{"expires_in": "NaN"}', b'{"expires_in": -1}', b'{"expires_in": 1e999}', b"[]", b"{"):
        assert not rules.is_due(StoredFile(strange, 1000.0), None, 2000.0)


# ---- the local issuer


def test_the_claims_of_a_scitoken() -> None:
    about = IssuerSettings(
        "https://here", audiences=("https://a", "https://b"), group_template="read:/groups/{groupname}",
        expression=ExprTree('strcat("exec:/", Username)'),
    )  # fmt: skip
    claims = issuer.claims_of("ann", ["x", "y"], about, 1000.5, "id")
    assert claims == {
        "iss": "https://here", "sub": "ann", "aud": ["https://a", "https://b"], "ver": "scitoken:2.0", "jti": "id",
        "scope": "read:/user/ann write:/user/ann exec:/ann read:/groups/x read:/groups/y",
        "iat": 1000, "nbf": 1000, "exp": 2200,
    }  # fmt: skip
    wlcg = issuer.claims_of("ann", [], IssuerSettings("https://here", version="wlcg:1.0"), 0, "id")
    assert wlcg["wlcg.ver"] == "1.0" and "ver" not in wlcg and "aud" not in wlcg
    with pytest.raises(HostError, match="LOCAL_CREDMON_TOKEN_AUDIENCE"):
        issuer.claims_of("ann", [], IssuerSettings("https://here"), 0, "id")


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
def test_a_token_is_signed_with_a_key_that_is_made_once(algorithm: str, tmp_path: Path) -> None:
    about = IssuerSettings(
        "https://here", tmp_path / "private.pem", tmp_path / "public.pem", algorithm, "k1", audiences=("https://a",)
    )
    first = json.loads(issuer.issue("ann", about, 1000, "one"))
    assert first["expires_in"] == 1200
    public = load_pem_public_key((tmp_path / "public.pem").read_bytes())
    options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    for token in (first["access_token"], json.loads(issuer.issue("ann", about, 2000, "two"))["access_token"]):
        read = jwt.decode(token, public, [algorithm], audience="https://a", options=options)  # type: ignore[arg-type]
        assert read["sub"] == "ann" and jwt.get_unverified_header(token)["kid"] == "k1"
    assert stat.S_IMODE((tmp_path / "private.pem").stat().st_mode) == 0o600
    with pytest.raises(HostError) as caught:
        other = "RS256" if algorithm == "ES256" else "ES256"
        issuer.issue("ann", IssuerSettings("i", tmp_path / "private.pem", algorithm=other, audiences=("a",)), 0, "x")
    assert "PRIVATE KEY" not in str(caught.value)


def test_who_lacks_the_required_group_gets_an_empty_token(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("# groups\n* bob physics\n* ann chemistry,biology\n")
    about = IssuerSettings(
        "https://here", tmp_path / "key", tmp_path / "public", audiences=("a",), group_file=str(tmp_path / "map"),
        required_group="physics", use_json=False,
    )  # fmt: skip
    assert issuer.issue("ann", about, 0, "x") == b"\n"
    assert issuer.issue("bob", about, 0, "x").count(b".") == 2
    assert issuer.groups_of("ann", (tmp_path / "map").read_text()) == ("chemistry", "biology")


# ---- the client of OAuth2


def test_refresh_tokens_are_read_and_replaced() -> None:
    top = b'{"refresh_token": "old", "scopes": "a"}'
    assert oauth_client.refresh_token_of(top) == "old" == oauth_client.refresh_token_of(b"old\n")
    assert json.loads(oauth_client.with_refresh_token(top, "new")) == {"refresh_token": "new", "scopes": "a"}
    for strange in (b"", b"two words", b"{}", b'{"refresh_token": 5}', b"\0"):
        with pytest.raises(HostError):
            oauth_client.refresh_token_of(strange)


def test_answers_of_services() -> None:
    body = b'{"access_token": "secret", "expires_in": 60, "refresh_token": "next"}'
    answer = oauth_client.read_answer("box", 200, body, "former")
    assert answer.refresh_token == "next" and json.loads(answer.use) == {"access_token": "secret", "expires_in": 60}
    assert oauth_client.read_answer("box", 200, b'{"access_token": "a"}', "former").refresh_token == "former"
    for status, text in ((400, b'{"error": "invalid_grant", "secret": "s3"}'), (200, b"<html>"), (500, body)):
        with pytest.raises(HostError) as caught:
            oauth_client.read_answer("box", status, text, "former")
        assert "s3" not in str(caught.value) and "secret" not in str(caught.value)
    with pytest.raises(HostError, match="invalid_grant"):
        oauth_client.read_answer("box", 400, b'{"error": "invalid_grant"}', "r")


@pytest.mark.parametrize("url", ["", "http://box.com/token", "file:///etc/passwd", "https"])
def test_secrets_go_over_https_alone(url: str) -> None:
    with pytest.raises(HostError, match="https://"):
        oauth_client.refresh("box", ClientSettings("id", token_url=url), b"token")


# ---- files


def test_files_are_for_the_daemons_alone(tmp_path: Path) -> None:
    files = CredentialStore(tmp_path / "oauth.d", trusted=False)
    assert files.users() == [] and files.files("ann") == {} and files.read("ann", BOX, ".use") is None
    files.write("ann", BOX, ".use", b"one", 1.0)
    files.write("ann", BOX, ".use", b"two", 1.0)
    stored = files.read("ann", BOX, ".use")
    assert stored is not None and stored.data == b"two" and files.users() == ["ann"]
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "oauth.d", tmp_path / "oauth.d/ann")]
    assert modes == [0o700, 0o700] and (tmp_path / "oauth.d/ann/box.use").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "oauth.d/ann").iterdir()] == ["box.use"]
    assert files.remove("ann", BOX) and not files.remove("ann", BOX)
    for user in ("..", "", ".", "a/b", "ann@../x", ".hidden"):
        with pytest.raises(NotFoundError):
            files.write(user, BOX, ".use", b"x", 1.0)
    with pytest.raises(DeniedError, match="65536"):
        files.write("ann", BOX, ".use", b"x" * (LARGEST + 1), 1.0)


@pytest.mark.parametrize(
    ("mode", "trusted", "usable"),
    [(0o755, False, False), (0o2770, False, False), (0o2770, True, True), (0o777, True, False)],
)
def test_a_directory_that_others_can_enter_is_not_used(tmp_path: Path, mode: int, trusted: bool, usable: bool) -> None:
    place = tmp_path / "oauth.d"
    place.mkdir()
    place.chmod(mode)
    files = CredentialStore(place, trusted=trusted)
    if usable:
        files.write("ann", BOX, ".use", b"x", 1.0)
        return
    with pytest.raises(HostError, match="for the daemons alone"):
        files.write("ann", BOX, ".use", b"x", 1.0)
    assert list(place.iterdir()) == []


def test_links_in_the_place_of_credentials_are_not_followed(tmp_path: Path) -> None:
    files = CredentialStore(tmp_path / "oauth.d", trusted=False)
    files.write("ann", BOX, ".use", b"x", 1.0)
    (tmp_path / "secret").write_text("root's")
    place = tmp_path / "oauth.d/ann/box.use"
    place.unlink()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        files.read("ann", BOX, ".use")
    files.write("ann", BOX, ".use", b"own", 1.0)
    assert (tmp_path / "secret").read_text() == "root's" and place.read_bytes() == b"own"


def test_when_a_user_had_jobs_is_kept(tmp_path: Path) -> None:
    files = CredentialStore(tmp_path / "oauth.d", trusted=False)
    files.note_jobs("ann", 5.0)
    files.write("ann", BOX, ".top", b"x", 1.0)
    assert files.last_jobs("ann") is None
    files.note_jobs("ann", 5.0)
    assert files.last_jobs("ann") == 5.0 and list(files.files("ann")) == ["box.top"]
    files.forget_jobs("ann")
    assert files.last_jobs("ann") is None
    files.remove_all("ann")
    assert files.users() == []

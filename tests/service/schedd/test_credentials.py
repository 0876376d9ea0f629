"""Credentials at the access point: whose they are, what a submission needs, renewal, removal."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from slotwise.clock import ManualClock
from slotwise.errors import DeniedError
from slotwise.wire import channel
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc

from tests.support.access_point import RunningAccessPoint
from tests.support.token_endpoint import TokenEndpoint

Query = schedd_pb2.CredentialQuery


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    served = TokenEndpoint()
    yield served
    served.close()


@pytest.fixture
async def keeping(tmp_path: Path, endpoint: TokenEndpoint) -> AsyncIterator[RunningAccessPoint]:
    """An access point that keeps credentials, signs tokens of scitokens and is a client of box; its clock is manual."""
    running = RunningAccessPoint(tmp_path / "pool")
    running.clock = ManualClock(time.time())
    (tmp_path / "secret").write_text("the-secret\n")
    await running.start(
        SEC_CREDENTIAL_DIRECTORY_OAUTH=str(tmp_path / "oauth.d"), LOCAL_CREDMON_PROVIDER_NAMES="scitokens",
        LOCAL_CREDMON_PRIVATE_KEY=str(tmp_path / "private.pem"), LOCAL_CREDMON_PUBLIC_KEY=str(tmp_path / "public.pem"),
        LOCAL_CREDMON_TOKEN_AUDIENCE="https://a", SUBMIT_ADD_LOCAL_CREDMON_PROVIDERS="false",
        BOX_CLIENT_ID="the-client", BOX_CLIENT_SECRET_FILE=str(tmp_path / "secret"), BOX_TOKEN_URL=endpoint.url,
        CRED_SUPER_USERS="storer",
    )  # fmt: skip
    yield running
    await running.stop()


def clock_of(running: RunningAccessPoint) -> ManualClock:
    assert isinstance(running.clock, ManualClock)
    return running.clock


async def store(
    running: RunningAccessPoint, service: str, content: bytes = b"token", *, by: str = "", **about: Any
) -> schedd_pb2.CredentialState:
    how = {"refreshed": about.pop("refreshed")} if "refreshed" in about else {}
    message = schedd_pb2.CredentialStoring(credential=Query(service=service, **about), content=content, **how)
    stub = private(running)
    return await stub.StoreCredential(message, metadata=running.as_user(by) if by else running.user)


def private(running: RunningAccessPoint) -> schedd_pb2_grpc.ScheddStub:
    """The access point by its own socket."""
    return schedd_pb2_grpc.ScheddStub(channel.open_async(f"unix:{running.home.run / 'schedd.sock'}"))


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return f"{caught.value.code().name}: {caught.value.details()}"


def folder(running: RunningAccessPoint, user: str = "") -> Path:
    return running.home.root.parent / "oauth.d" / (user or running.owner)


async def test_nobody_reaches_the_credentials_of_another(keeping: RunningAccessPoint) -> None:
    await store(keeping, "site", b"mine")
    stub, mallory = private(keeping), keeping.as_user("mallory")
    assert "NOT_FOUND" in await refusal(stub.FetchCredential(Query(service="site"), metadata=mallory))
    assert "NOT_FOUND" in await refusal(stub.QueryCredentials(Query(), metadata=mallory))
    for call, message in (
        (stub.QueryCredentials, Query(service="site", user=keeping.owner)),
        (stub.DeleteCredential, Query(user=keeping.owner)),
        (stub.FetchCredential, Query(service="site", user=keeping.owner)),
    ):
        assert "PERMISSION_DENIED" in await refusal(call(message, metadata=mallory))
    assert "PERMISSION_DENIED" in await refusal(store(keeping, "site", b"evil", by="mallory", user=keeping.owner))
    await stub.DeleteCredential(Query(), metadata=mallory)
    mine = await stub.FetchCredential(Query(service="site"), metadata=keeping.user)
    assert (mine.name, mine.content) == ("site.use", b"mine")
    of_another_domain = keeping.secrets.mint(f"{keeping.owner}@evil", ["WRITE"], now=1)
    stranger = (("authorization", f"Bearer {of_another_domain}"),)
    assert "NOT_FOUND" in await refusal(stub.FetchCredential(Query(service="site"), metadata=stranger))


async def test_whom_the_administrator_names_stores_for_others_and_fetches_nothing(keeping: RunningAccessPoint) -> None:
    done = await store(keeping, "site", b"given", by="storer", user="ann")
    assert done.user == "ann@here" and list(done.files) == ["site.use"]
    stub, storer = private(keeping), keeping.as_user("storer")
    assert list((await stub.QueryCredentials(Query(user="ann"), metadata=storer)).files) == ["site.use"]
    assert "PERMISSION_DENIED" in await refusal(
        stub.FetchCredential(Query(service="site", user="ann"), metadata=storer)
    )
    assert (await stub.FetchCredential(Query(service="site"), metadata=keeping.as_user("ann"))).content == b"given"


async def test_names_lead_nowhere_else_and_sizes_are_bounded(keeping: RunningAccessPoint) -> None:
    for service, handle in (("../x", ""), ("a/b", ""), ("..", ""), ("box", "../../y"), ("", ""), ("", "h")):
        assert "INVALID_ARGUMENT" in await refusal(store(keeping, service, handle=handle))
    assert "65536" in await refusal(store(keeping, "big", b"x" * 70_000))
    assert "empty" in await refusal(store(keeping, "site", b"\n"))
    assert "NOT_FOUND" in await refusal(store(keeping, "site", by="..", refreshed=False))
    for number in range(200):
        await store(keeping, f"s{number}")
    assert "remove some" in await refusal(store(keeping, "one-more"))
    await store(keeping, "s0", b"replaced")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder(keeping).iterdir()} == {0o600}


async def test_the_tokens_of_one_job_fit_a_message(keeping: RunningAccessPoint) -> None:
    for number in range(17):
        await store(keeping, f"s{number}", b"x" * 65_000)
    user, names = f"{keeping.owner}@here", [f"s{number}" for number in range(17)]
    assert len(await keeping.point.credentials.for_job(user, ",".join(names[:16]))) == 16
    with pytest.raises(DeniedError, match="name fewer services"):
        await keeping.point.credentials.for_job(user, ",".join(names))


async def test_without_a_directory_nothing_is_kept_and_jobs_are_refused(schedd: RunningAccessPoint) -> None:
    assert "SEC_CREDENTIAL_DIRECTORY_OAUTH" in await refusal(store(schedd, "site"))
    assert "use feature : oauth" in await refusal(schedd.submit(1, OAuthServicesNeeded="site"))


async def test_a_submission_needs_its_credentials(keeping: RunningAccessPoint) -> None:
    missing = await refusal(keeping.submit(1, OAuthServicesNeeded="site*b,scitokens"))
    assert "Credential 'site*b' of unknown type is missing" in missing
    assert "htcondor credential add oauth2 FILE --service site --handle b" in missing
    await store(keeping, "site", handle="b")
    assert await keeping.submit(1, OAuthServicesNeeded="site*b,scitokens")
    assert "local universe" in await refusal(keeping.submit(1, OAuthServicesNeeded="scitokens", JobUniverse=12))
    assert "can't have a handle" in await refusal(keeping.submit(1, OAuthServicesNeeded="scitokens*x"))
    assert "INVALID_ARGUMENT" in await refusal(keeping.submit(1, OAuthServicesNeeded="../scitokens"))


async def test_the_access_point_signs_tokens_and_renews_them(keeping: RunningAccessPoint) -> None:
    await keeping.submit(1, OAuthServicesNeeded="scitokens")

    def token() -> str:
        return str(json.loads((folder(keeping) / "scitokens.use").read_bytes())["access_token"])

    first, keeper = token(), keeping.point.credentials
    claims = jwt.decode(first, options={"verify_signature": False})
    assert (
        claims["sub"] == keeping.owner and claims["scope"] == f"read:/user/{keeping.owner} write:/user/{keeping.owner}"
    )
    clock_of(keeping).advance(599)
    await keeper.look()
    assert token() == first
    clock_of(keeping).advance(1)
    await keeper.look()
    assert token() != first and jwt.decode(token(), options={"verify_signature": False})["iat"] == int(
        keeping.clock.now()
    )


async def test_refresh_tokens_are_exchanged_and_never_leave(
    keeping: RunningAccessPoint, endpoint: TokenEndpoint
) -> None:
    missing = await refusal(keeping.submit(1, OAuthServicesNeeded="box"))
    assert "Credential 'box' is missing" in missing and "--service box" in missing
    done = await store(keeping, "box", b'{"refresh_token": "refresh-0"}', scopes="a, b", audience="x")
    assert not done.pending and sorted(done.files) == ["box.top", "box.use"]
    assert endpoint.asked == [{"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": "the-client",
                               "client_secret": "the-secret"}]  # fmt: skip
    stub = private(keeping)
    use = (await stub.FetchCredential(Query(service="box"), metadata=keeping.user)).content
    assert json.loads(use)["access_token"] == "access-1" and b"refresh" not in use
    assert "do not match" in await refusal(keeping.submit(1, OAuthServicesNeeded="box"))
    assert await keeping.submit(1, OAuthServicesNeeded="box", OAuthRequests="box&scopes=a,b&audience=x")
    for wanted, found in (
        (Query(service="box", scopes="a,b", audience="x"), True),
        (Query(service="box", scopes="c"), False),
    ):
        if found:
            assert (await stub.QueryCredentials(wanted, metadata=keeping.user)).files
        else:
            assert "did not match" in await refusal(stub.QueryCredentials(wanted, metadata=keeping.user))
    clock_of(keeping).advance(51)
    await keeping.point.credentials.look()
    assert endpoint.asked[-1]["refresh_token"] == "refresh-1", "each is good once"
    assert json.loads((folder(keeping) / "box.top").read_bytes()) == {
        "refresh_token": "refresh-2", "scopes": "a,b", "audience": "x"
    }  # fmt: skip


async def test_a_service_that_fails_is_asked_again_later(
    keeping: RunningAccessPoint, endpoint: TokenEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.refuses = (503, b"<html>secret</html>")
    done = await store(keeping, "box", b"refresh-0")
    assert done.pending and "HTTP 503" in done.note
    assert "HTTP 503" in await refusal(keeping.submit(1, OAuthServicesNeeded="box"))
    asked, keeper = len(endpoint.asked), keeping.point.credentials
    await keeper.look()
    assert len(endpoint.asked) == asked, "not at once"
    clock_of(keeping).advance(60)
    await keeper.look()
    clock_of(keeping).advance(60)
    await keeper.look()
    assert len(endpoint.asked) == asked + 1, "and then after longer waits"
    endpoint.refuses = None
    clock_of(keeping).advance(60)
    await keeper.look()
    assert (folder(keeping) / "box.use").exists() and "refresh-0" not in caplog.text and "<html>" not in caplog.text


async def test_credentials_go_some_time_after_the_last_job(keeping: RunningAccessPoint) -> None:
    keeper, clock = keeping.point.credentials, clock_of(keeping)
    await store(keeping, "site")
    await store(keeping, "site", by="ann")

    async def pass_(seconds: float) -> list[bool]:
        clock.advance(seconds)
        await keeper.look()
        return [folder(keeping, user).exists() for user in ("", "ann")]

    assert await pass_(100_000) == [True, True], "who never had a job keeps what was stored"
    await keeping.submit(1, OAuthServicesNeeded="site")
    assert await pass_(100_000) == [True, True]
    await keeping.act("REMOVE", "true")
    await keeping.until_gone()
    assert await pass_(3_500) == [True, True]
    assert await pass_(3_600) == [False, True]


async def test_who_submits_gets_the_tokens_that_the_site_signs(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start(
        SEC_CREDENTIAL_DIRECTORY_OAUTH=str(tmp_path / "oauth.d"), LOCAL_CREDMON_PROVIDER_NAME="scitokens",
        LOCAL_CREDMON_PRIVATE_KEY=str(tmp_path / "private.pem"), LOCAL_CREDMON_PUBLIC_KEY=str(tmp_path / "public.pem"),
        LOCAL_CREDMON_TOKEN_AUDIENCE="https://a",
    )  # fmt: skip
    try:
        await running.submit(1)
        assert sorted(path.name for path in folder(running).iterdir()) == ["scitokens.top", "scitokens.use"]
        (folder(running) / "scitokens.use").unlink()
        await running.submit(1)
        assert (folder(running) / "scitokens.use").exists(), "somebody had removed it"
        await running.stub.CheckCredentials(schedd_pb2.CredentialCheck(), metadata=running.as_user("ann"))
        assert (folder(running, "ann") / "scitokens.use").exists()
    finally:
        await running.stop()


async def test_tokens_cross_no_network_unencrypted(keeping: RunningAccessPoint) -> None:
    message = schedd_pb2.CredentialStoring(credential=Query(service="site"), content=b"token")
    open_ = schedd_pb2_grpc.ScheddStub(grpc.aio.insecure_channel(keeping.point._context.address.tcp))
    assert "not secure" in await refusal(open_.StoreCredential(message, metadata=keeping.user))
    assert "not secure" in await refusal(open_.FetchCredential(Query(service="site"), metadata=keeping.user))

"""Who is answered without a token, and what the API refuses before a daemon is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Any, cast

import pytest
from slotwise.errors import BusyError, DeniedError, NotFoundError, UnauthenticatedError, UsageError
from slotwise.web import access
from slotwise.web.access import CHANGES_HEADER, COOKIE, Gate
from slotwise.web.api import OPERATIONS, openapi
from slotwise.web.asked import Asked
from slotwise.web.bounds import ANYBODY, Bound, Memory, ServiceBounds
from slotwise.web.exposition import Scraper
from slotwise.web.job_requests import constraint_of, jobs_of
from slotwise.web.pool_client import PoolClient
from slotwise.web.problems import problem
from slotwise.web.sessions import LASTS_S, MOST_EACH, Sessions
from slotwise.web.settings import Readers
from slotwise.web.trend import Sample, Trend, jobs_by_state
from slotwise.wire import base64url
from slotwise.wire.credential import Metadata, TokenCredential
from slotwise.wire.gate import FOR_USER
from slotwise.wire.local_peer import account_at
from starlette.requests import Request

UNIX = "unix:/nowhere/s"


class Own:
    def metadata(self, target: str) -> Metadata:
        return (("authorization", "Bearer own"),)


def request(method: str = "GET", *, host: str = "127.0.0.1:9619", peer: str = "127.0.0.1", **headers: str) -> Request:
    lines = [(b"host", host.encode())]
    lines += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": "/api/v1/pool",
        "query_string": b"",
        "headers": lines,
        "scheme": "http",
        "server": ("127.0.0.1", 9619),
        "client": (peer, 40_000),
    }
    return Request(scope)


def shown(access: Any) -> str:
    return dict(access.credential.metadata(UNIX))["authorization"]


@pytest.mark.parametrize(
    ("readers", "peer", "host", "answered"),
    [
        ("loopback", "127.0.0.1", "localhost:9619", True),
        ("loopback", "::1", "[::1]:9619", True),
        ("loopback", "10.0.0.7", "10.0.0.1", False),
        # Another site's name that resolves to the loopback address.
        ("loopback", "127.0.0.1", "evil.example.org:9619", False),
        ("all", "10.0.0.7", "pool.example.org", True),
        ("none", "127.0.0.1", "localhost", False),
    ],
)
def test_who_reads_without_a_token(
    readers: Readers, peer: str, host: str, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "account_at", lambda peer, here: 1234)
    gate = Gate(Own(), readers, name_of=lambda uid: f"user{uid}@here")
    if answered:
        found = gate.access(request(peer=peer, host=host))
        assert not found.signed_in and shown(found) == "Bearer own"
        told: Any = dict(found.credential.metadata(UNIX)).get(FOR_USER)
        assert told == (b"user1234@here" if readers == "loopback" else None)
    else:
        with pytest.raises(UnauthenticatedError, match="reading needs a token"):
            gate.access(request(peer=peer, host=host))


@pytest.mark.parametrize("uid", [None, 1234])
def test_accounts_that_are_nobody_to_the_pool_do_not_read(uid: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "account_at", lambda peer, here: uid)
    with pytest.raises(UnauthenticatedError, match="reading needs a token"):
        Gate(Own(), "loopback", name_of=lambda uid: None).access(request(peer="127.0.0.1", host="localhost"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_tells_whose_connection_it_is(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this host has no {host}")
    with listening, socket.create_connection(listening.getsockname()[:2]) as caller:
        peer, here = caller.getsockname()[:2], listening.getsockname()[:2]
        assert account_at(peer, here) == os.geteuid()
        assert account_at(peer, (host, here[1] - 1)) is None
        assert account_at((host, 1), here) is None


def test_nobody_changes_anything_without_a_token() -> None:
    with pytest.raises(UnauthenticatedError, match="changes need a token"):
        Gate(Own(), "all").access(request("POST"))


def test_the_token_of_a_request_is_shown_to_the_daemons_and_the_services_own_never_with_it() -> None:
    gate = Gate(Own(), "all")
    for given in (
        {"authorization": "Bearer alices"},
        {"cookie": f"{COOKIE}={gate.sessions.begin('alices', 'alice@here')}"},
    ):
        access = gate.access(request(**given))
        assert access.signed_in and isinstance(access.credential, TokenCredential)
        assert shown(access) == "Bearer alices"


def test_a_change_with_a_cookie_needs_the_header_that_no_other_site_can_send() -> None:
    gate = Gate(Own(), "all")
    name = gate.sessions.begin("alices", "alice@here")
    with pytest.raises(DeniedError, match="another site"):
        gate.access(request("POST", cookie=f"{COOKIE}={name}"))
    marked = request("POST", cookie=f"{COOKIE}={name}", **{CHANGES_HEADER: "1"})
    assert shown(gate.access(marked)) == "Bearer alices"


@pytest.mark.parametrize("token", ["t\xf8ken", "a\tb", "a\x7f"])
def test_what_cannot_be_a_token_is_refused_before_it_is_sent_on(token: str) -> None:
    with pytest.raises(UnauthenticatedError, match="not a token"):
        Gate(Own(), "all").access(request(authorization=f"Bearer {token}"))


def body_of(sent: list[bytes], **headers: str) -> tuple[object, list[bytes]]:
    """The object that a request with this body has, and what of the body was not read."""
    left = list(sent)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    asked = Request(request("POST", **headers).scope, receive)
    gate, scraper = Gate(Own(), "all"), cast("Scraper", None)
    access, bounds = gate.access(request()), ServiceBounds()

    async def read() -> object:
        pool = PoolClient({}, access.credential)
        async with contextlib.AsyncExitStack() as held:
            memory = held.enter_context(bounds.memory.of("alice"))
            return await Asked(asked, access, pool, scraper, gate.sessions, bounds, Trend(), memory, held).body()

    try:
        return asyncio.run(read()), left
    except (UsageError, BusyError) as error:
        return error, left


@pytest.mark.parametrize("body", [b'{"a": "\\ud800"}', b"[" * 100_000, b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object_of_text_is_refused(body: bytes) -> None:
    found, _ = body_of([body])
    assert isinstance(found, UsageError) and "the request is not" in found.message


def test_a_body_that_is_too_large_is_refused_before_it_is_read_or_as_soon_as_it_is() -> None:
    found, left = body_of([b"x"] * 5, content_length=str(5 << 20))
    assert isinstance(found, UsageError) and "larger than" in found.message and len(left) == 5
    found, left = body_of([b"x" * (1 << 20)] * 9)
    assert isinstance(found, UsageError | BusyError) and len(left) >= 4
    assert body_of([b'{"a": ', b"1}"], content_length="8")[0] == {"a": 1}


@pytest.mark.parametrize("job", ["", "1.", ".1", "1.0.0", "-1", "true", "1 || true", "\u0661"])
def test_a_job_is_named_by_its_id_alone(job: str) -> None:
    with pytest.raises(UsageError, match="is not a job id"):
        constraint_of(job)


def test_jobs_are_named_by_ids_or_by_a_constraint_and_never_by_both() -> None:
    assert constraint_of("12.3") == "ClusterId == 12 && ProcId == 3"
    assert jobs_of({"jobs": ["12.3", "4"]}) == ["12.3", "4"]
    assert jobs_of({"constraint": "true"}) == "true"
    refused: list[dict[str, object]] = [
        {},
        {"jobs": []},
        {"jobs": ["1"], "constraint": "true"},
        {"constraint": ""},
        {"jobs": "1.0"},
    ]
    for wrong in refused:
        with pytest.raises(UsageError):
            jobs_of(wrong)


def test_errors_have_a_status_a_code_and_the_remedy() -> None:
    found = problem(NotFoundError("there is no job 1.0", hint="look again"))
    assert (found.status_code, found.media_type) == (404, "application/problem+json")
    told = json.loads(bytes(found.body))
    assert (told["title"], told["detail"], told["hint"]) == ("not_found", "there is no job 1.0", "look again")
    assert problem(UnauthenticatedError("no token")).headers["www-authenticate"] == "Bearer"
    assert problem(BusyError("later", retry_after_s=7)).headers["retry-after"] == "7"


def test_every_operation_is_described() -> None:
    paths: Any = openapi()["paths"]
    assert {(path, method) for path, methods in paths.items() for method in methods} == {
        (one.path, one.method.lower()) for one in OPERATIONS
    }
    for one in OPERATIONS:
        in_path = {name for name in ("job", "file", "machine", "name") if f"{{{name}}}" in one.path}
        assert in_path == {each.name for each in one.parameters if each.place == "path"}


def test_every_operation_says_what_it_answers_by_a_schema_that_there_is() -> None:
    described: Any = openapi()
    schemas = described["components"]["schemas"]

    def named(within: object) -> set[str]:
        if isinstance(within, dict):
            own = {str(within["$ref"]).rpartition("/")[2]} if "$ref" in within else set()
            return own.union(*map(named, within.values()))
        return set().union(*map(named, within)) if isinstance(within, list) else set()

    assert named(described) <= schemas.keys()
    assert schemas.keys() - named(described) == set()
    ids = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(set(ids)) == len(ids) and all(one.isidentifier() for one in ids)
    assert "201" in described["paths"]["/api/v1/jobs"]["post"]["responses"]


def test_a_session_ends_by_itself_and_by_signing_out_and_its_name_is_no_token() -> None:
    now = 0.0
    gate = Gate(Own(), "all", lambda: now)
    name = gate.sessions.begin("alices", "alice@here")
    assert "alices" not in name
    now = LASTS_S - 1
    assert gate.access(request(cookie=f"{COOKIE}={name}")).signed_in
    now = LASTS_S
    assert not gate.access(request(cookie=f"{COOKIE}={name}")).signed_in
    other = gate.sessions.begin("alices", "alice@here")
    gate.sessions.end(other)
    assert not gate.access(request(cookie=f"{COOKIE}={other}")).signed_in
    with pytest.raises(UnauthenticatedError):
        gate.access(request("POST", cookie=f"{COOKIE}={other}", **{CHANGES_HEADER: "1"}))


@pytest.mark.parametrize(("began", "asks"), [(1001, 1002), (1001, None), (None, 1001)])
def test_a_session_is_worth_nothing_to_another_account_of_the_host(
    began: int | None, asks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cookies know no ports: a server of that account is sent them by the browser of whoever it lures there."""
    gate = Gate(Own(), "none")
    cookie = f"{COOKIE}={gate.sessions.begin('alices', 'alice@here', began)}"
    monkeypatch.setattr(access, "account_over_loopback", lambda peer, here: asks)
    with pytest.raises(UnauthenticatedError):
        gate.access(request(cookie=cookie))
    with pytest.raises(UnauthenticatedError):
        gate.access(request("POST", cookie=cookie, **{CHANGES_HEADER: "1"}))
    monkeypatch.setattr(access, "account_over_loopback", lambda peer, here: began)
    assert shown(gate.access(request(cookie=cookie))) == "Bearer alices"


def test_a_user_has_so_many_sessions_and_signs_nobody_else_out() -> None:
    sessions = Sessions(lambda: 0.0)
    alice = sessions.begin("alices", "alice")
    bobs = [sessions.begin(f"bobs {n}", "bob") for n in range(MOST_EACH + 10_100)]
    assert sessions.token(alice) == "alices"
    assert [sessions.token(name) for name in bobs[-MOST_EACH:]] == [f"bobs {n}" for n in range(10_100, 10_120)]
    assert not any(map(sessions.token, bobs[:-MOST_EACH]))
    for n in range(10_100):  # and many users do not sign out those with few
        sessions.begin("x", f"user {n // 15}")
    assert sessions.token(alice) == "alices"
    sessions.end(alice)
    assert sessions.token(alice) == ""


def test_nobody_keeps_others_out_neither_strangers_nor_one_user_with_several_tokens() -> None:
    bound = Bound("long lists", most=3, most_each=1)

    def refusal(caller: str) -> str:
        with pytest.raises(BusyError) as refused, bound.one(caller):
            pass
        return refused.value.message

    with bound.one(ANYBODY):
        assert refusal(ANYBODY) == "1 long lists of yours are open"
        with bound.one("alice"):
            assert refusal("alice") == "1 long lists of yours are open"
        with bound.one("alice"), bound.one("bob"):
            assert refusal("carol") == "3 long lists are open"
    with bound.one(ANYBODY):
        pass


def test_what_the_service_holds_for_one_caller_is_bounded_and_given_back() -> None:
    memory = Memory(most=100, most_each=60)
    with memory.of("alice") as one, memory.of("alice") as two:
        one.take(40)
        with pytest.raises(BusyError, match="as much for your requests"):
            two.take(21)
        two.take(20)
        with memory.of("bob") as other:
            other.take(40)
            with pytest.raises(BusyError), memory.of("carol") as third:
                third.take(1)
    with memory.of("alice") as again:
        again.take(60)


@pytest.mark.parametrize(
    ("peer", "caller"),
    [("10.0.0.7", "<10.0.0.7>"), ("2001:db8:1:2::7", "<2001:db8:1:2::/64>"), ("127.9.9.9", "<127.0.0.1>")],
)
def test_callers_without_a_token_are_told_apart_by_their_addresses(
    peer: str, caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "account_at", lambda peer, here: None)
    assert Gate(Own(), "all").access(request(peer=peer)).caller == caller


def test_callers_of_this_host_are_told_apart_by_their_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "account_at", lambda peer, here: 1234)
    kinds: tuple[Readers, ...] = ("all", "loopback")
    for readers in kinds:
        gate = Gate(Own(), readers, name_of=lambda uid: f"user{uid}@here")
        assert gate.access(request(host="localhost")).caller == "user1234@here"


def test_whose_a_token_is_comes_from_the_token_itself_and_odd_ones_are_told_apart() -> None:
    def caller(token: str) -> str:
        return Gate(Own(), "none").access(request(authorization=f"Bearer {token}")).caller

    def token(body: object) -> str:
        return f"{base64url.encoded(b'{}')}.{base64url.encoded(json.dumps(body).encode())}.y"

    assert caller(token({"sub": "alice@here"})) == caller(token({"sub": "alice@here", "iat": 7})) == "alice@here"
    odd = ["x", "a.b.c", token([1]), token({"sub": 7}), token({"sub": ""})]
    assert len({caller(one) for one in odd} | {"", "alice@here"}) == len(odd) + 2


def test_the_trend_is_bounded_and_its_newest_sample_is_always_told() -> None:
    trend = Trend()
    assert trend.told() == {"every_s": 60.0, "samples": []}
    for at in range(2000):
        trend.add(Sample(at, {"claimed": at}, {"idle": 0}))
    told: Any = trend.told()
    assert told["samples"][-1] == {"at": 1999, "cores": {"claimed": 1999}, "jobs": {"idle": 0}}
    assert (len(told["samples"]), told["every_s"], told["samples"][0]["at"]) == (360, 240.0, 1999 - 4 * 359)
    assert jobs_by_state([{"TotalIdleJobs": 3}, {"TotalIdleJobs": 4, "TotalHeldJobs": "many"}])["idle"] == 7

"""Every error comes out of a call as it was raised at the other end: class, code, message, hint and fields."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from slotwise import errors
from slotwise.errors import AdSyntaxError, BusyError, ConfigError, HostError, SlotwiseError, SubmitError
from slotwise.wire import channel
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, daemon_pb2, daemon_pb2_grpc
from slotwise.wire.status import answers_errors, detail, error_of, to_error

from tests.support.serving import metadata, serving
from tests.support.waiting import LIMIT_S

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SlotwiseError)]


def example(kind: type[SlotwiseError]) -> SlotwiseError:
    """An error of this class with something in each of its fields."""
    samples: dict[str, Any] = {"str": 'a/b "c" ü', "int": 7, "float": 2.5, "str | None": "do that"}
    parameters = inspect.signature(kind).parameters.values()
    fields = {p.name: samples[str(p.annotation)] for p in parameters if p.kind is p.KEYWORD_ONLY}
    return kind("what is wrong (50 %)", **fields)


def facts(error: SlotwiseError) -> dict[str, Any]:
    return {"class": type(error), "text": str(error), "code": error.code, **vars(error)}


SPECIAL = ConfigError("no", key="X")
SPECIAL.code = "config-bad-type"
CASES = [
    *(example(kind) for kind in KINDS),
    *(kind("no hint") for kind in KINDS),
    SPECIAL,
    BusyError("", hint="", retry_after_s=0.0),
    HostError("x\nline two\r\n\ttab \x00 nul 日本", hint="one\ntwo", path="/a\n", errno=28),
    AdSyntaxError("bad", line=3, column=17, source="A = 1 +\n"),
    SubmitError("x" * 7000, origin="job.sub:12", key="request_memory"),
]


class Raising(collector_pb2_grpc.CollectorServicer, daemon_pb2_grpc.DaemonServicer):
    """Answers each call with the error whose number was asked for."""

    error: SlotwiseError

    @answers_errors
    async def Reconfig(self, request: common_pb2.Empty, context: Any) -> daemon_pb2.ReconfigReply:
        raise self.error

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Any) -> AsyncIterator[common_pb2.AdChunk]:
        yield common_pb2.AdChunk(total=1)
        raise self.error

    @answers_errors
    async def Advertise(self, request_iterator: Any, context: Any) -> None:
        raise self.error


@pytest.mark.parametrize("error", CASES, ids=lambda error: f"{type(error).__name__}-{len(str(error))}")
async def test_an_error_comes_back_equal_from_every_form_of_call(error: SlotwiseError) -> None:
    servicer = Raising()
    servicer.error = error
    shown = metadata("ADMINISTRATOR", "DAEMON")
    async with serving(
        lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(servicer, s),
        lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(servicer, s),
    ) as opened:
        collector = collector_pb2_grpc.CollectorStub(opened)
        with pytest.raises(grpc.RpcError) as unary:
            await daemon_pb2_grpc.DaemonStub(opened).Reconfig(common_pb2.Empty(), metadata=shown)
        pieces = 0
        with pytest.raises(grpc.RpcError) as streamed:
            async for _ in collector.Query(common_pb2.AdQuery(), metadata=shown):
                pieces += 1
        with pytest.raises(grpc.RpcError) as both_ways:
            async for _ in collector.Advertise(metadata=shown):
                pass
    assert pieces == 1
    for caught in (unary, streamed, both_ways):
        assert caught.value.code().name == error.status
        assert facts(to_error(caught.value)) == facts(error)
        assert isinstance(caught.value.details(), str) and error.message[:20].split("\n")[0] in caught.value.details()


@pytest.mark.parametrize("error", CASES, ids=lambda error: f"{type(error).__name__}-{len(str(error))}")
def test_an_error_comes_back_equal_from_an_answer_inside_a_stream(error: SlotwiseError) -> None:
    said = common_pb2.ErrorDetail.FromString(detail(error).SerializeToString())
    assert facts(error_of(said)) == facts(error)


def test_every_class_names_its_fields() -> None:
    for kind in KINDS:
        own = set(vars(example(kind))) - {"message", "hint"}
        assert own == set(kind.fields), kind
        assert not own or own <= {field.name for field in common_pb2.ErrorDetail.DESCRIPTOR.fields}, kind


async def test_a_refused_token_is_told_with_its_hint() -> None:
    async with serving(lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(Raising(), s)) as opened:
        stub = daemon_pb2_grpc.DaemonStub(opened)
        for shown, kind in (((), errors.UnauthenticatedError), (metadata("READ"), errors.DeniedError)):
            with pytest.raises(grpc.RpcError) as caught:
                await stub.Reconfig(common_pb2.Empty(), metadata=shown)
            error = to_error(caught.value)
            assert type(error) is kind and "(" not in error.message
            assert bool(error.hint) == (kind is errors.UnauthenticatedError)


class Elsewhere(HostError):
    """A class that only one daemon knows."""

    code = "elsewhere"

    def __init__(self, end: object) -> None:
        super().__init__("the disk is full", path="/scratch")
        self.end = end


def test_a_class_of_one_daemon_travels_as_the_one_above_it() -> None:
    error = error_of(detail(Elsewhere(object())))
    assert type(error) is HostError and error.code == "elsewhere" and error.path == "/scratch"


async def test_texts_too_long_or_not_of_utf_8_are_cut_and_escaped() -> None:
    servicer = Raising()
    servicer.error = AdSyntaxError("日" * 100_000 + "\udcff", hint="h" * 100_000, source="\udcff" * 50_000)
    async with serving(lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(servicer, s)) as opened:
        with pytest.raises(grpc.RpcError) as caught:
            await daemon_pb2_grpc.DaemonStub(opened).Reconfig(common_pb2.Empty(), metadata=metadata("ADMINISTRATOR"))
    error = to_error(caught.value)
    assert isinstance(error, AdSyntaxError) and error.message.startswith("日日") and error.message.endswith(" ...")
    assert 1000 < len(error.message) < 8000 and error.source.startswith("\\udcff\\udcff")


async def test_a_trailer_that_makes_no_sense_is_passed_over() -> None:
    class Hostile(daemon_pb2_grpc.DaemonServicer):
        async def Reconfig(self, request: Any, context: Any) -> Any:
            trailer = (("slotwise-error-bin", b"\xff\xff\xff"),)
            await context.abort(grpc.StatusCode.NOT_FOUND, "gone", trailer)

    async with serving(lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(Hostile(), s)) as opened:
        with pytest.raises(grpc.RpcError) as caught:
            await daemon_pb2_grpc.DaemonStub(opened).Reconfig(common_pb2.Empty(), metadata=metadata("ADMINISTRATOR"))
    assert facts(to_error(caught.value)) == facts(errors.NotFoundError("gone"))
    unknown = error_of(common_pb2.ErrorDetail(kind="of the future", code="x", message="m"))
    assert type(unknown) is SlotwiseError and unknown.code == "x"


def test_a_call_that_reached_nobody_is_told_as_that() -> None:
    opened = channel.open_blocking("127.0.0.1:1")
    with pytest.raises(grpc.RpcError) as caught:
        daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=LIMIT_S)
    error = to_error(caught.value, peer="the schedd")
    assert type(error) is errors.PeerUnavailableError and error.message == "the schedd does not answer"


async def test_a_daemon_that_is_stopped_is_not_said_not_to_run() -> None:
    class Stopped(daemon_pb2_grpc.DaemonServicer):
        async def Ping(self, request: Any, context: Any) -> Any:
            await asyncio.sleep(LIMIT_S)

    async with serving(lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(Stopped(), s)) as opened:
        with pytest.raises(grpc.RpcError) as caught:
            await daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=0.2)
    error = to_error(caught.value, peer="the schedd")
    assert type(error) is errors.PeerUnavailableError and error.message == "the schedd does not answer in time"
    assert error.hint is not None and "stopped or overloaded" in error.hint and "slotwise up" not in error.hint

"""The one map between Slotwise's errors and gRPC statuses, both ways."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message

from slotwise import errors
from slotwise.errors import SlotwiseError
from slotwise.wire import call
from slotwise.wire.context import Context, Request
from slotwise.wire.gen import common_pb2

_log = logging.getLogger(__name__)
#: Name of the trailer with the error's detail.
_TRAILER = "slotwise-error-bin"
#: How many bytes of a message and of each other text travel: all trailers must fit the 64 KiB that channels take.
_MESSAGE_MOST, _TEXT_MOST = 8000, 4000
#: The same for the words of the status itself, which percent signs may make three times as long.
_DETAILS_MOST = 2000
_BY_CODE: dict[str, type[SlotwiseError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SlotwiseError) and "code" in vars(kind)
}

_KINDS = frozenset(_BY_CODE.values())
_BY_STATUS = {
    "NOT_FOUND": errors.NotFoundError,
    "UNIMPLEMENTED": errors.NotFoundError,
    "ABORTED": errors.StaleClaimError,
    "PERMISSION_DENIED": errors.DeniedError,
    "UNAUTHENTICATED": errors.UnauthenticatedError,
    "RESOURCE_EXHAUSTED": errors.BusyError,
    "UNAVAILABLE": errors.PeerUnavailableError,
    "DEADLINE_EXCEEDED": errors.PeerUnavailableError,
    "INVALID_ARGUMENT": errors.UsageError,
    "FAILED_PRECONDITION": errors.HostError,
}

#: What gRPC makes of the answer of a shared port or a broker (:mod:`slotwise.shared_port.request`).
_REFUSED_ON_THE_WAY = re.compile(r"HTTP proxy returned response code ([0-9]{3})")
_ON_THE_WAY = {
    "404": "its host has no such daemon",
    "429": "too many connections wait at its host or its broker",
    "502": "its host's shared port cannot connect to it, as it does not run",
    "503": "its host is not registered with its broker",
    "504": "its host did not answer its broker",
}
_HINT = "`slotwise up` on its host starts what does not run; its SharedPortLog and the broker's say what they refused"

F = TypeVar("F", bound=Callable[..., object])


def to_error(failure: grpc.RpcError, *, peer: str = "") -> SlotwiseError:
    """The error that a failed call stands for: as it was raised at the other end, else by the status of the call."""
    if (detail := detail_of(failure)) is not None:
        return error_of(detail)
    status = failure.code().name if callable(getattr(failure, "code", None)) else "UNKNOWN"
    details = failure.details() if callable(getattr(failure, "details", None)) else str(failure)
    kind = _BY_STATUS.get(status, SlotwiseError)
    if status == "DEADLINE_EXCEEDED":
        hint = "its process may be stopped or overloaded: `slotwise ping` shows which daemons answer"
        return kind(f"{peer or 'the daemon'} does not answer in time", hint=hint)
    if status == "UNIMPLEMENTED":
        hint = "a daemon of another kind, or of another version, answers there"
        return kind(f"{peer or 'the daemon'} has no such call", hint=hint)
    if kind is errors.PeerUnavailableError:
        if (refused := _REFUSED_ON_THE_WAY.search(str(details))) is not None:
            return kind(f"{peer or 'the daemon'} cannot be reached: {_on_the_way(refused.group(1))}", hint=_HINT)
        return kind(f"{peer or 'the daemon'} does not answer", hint="`slotwise up` starts what does not run")
    return kind(str(details or status))


def _on_the_way(status: str) -> str:
    return _ON_THE_WAY.get(status, f"a shared port or broker on the way answered with status {status}")


def detail_of(failure: grpc.RpcError) -> common_pb2.ErrorDetail | None:
    """What a daemon of ours said of a failed call; None when the call failed on its way, or something else answered."""
    trailing = failure.trailing_metadata() if callable(getattr(failure, "trailing_metadata", None)) else ()
    for name, value in trailing or ():
        if name == _TRAILER:
            try:
                return common_pb2.ErrorDetail.FromString(value)
            except DecodeError:
                return None
    return None


def detail(error: SlotwiseError) -> common_pb2.ErrorDetail:
    """An error as a message. What is not an error of :mod:`slotwise.errors` travels as the nearest one above it."""
    kind = next(each for each in type(error).__mro__ if each in _KINDS)
    said = common_pb2.ErrorDetail(kind=kind.code, code=error.code, message=_cut(error.message, _MESSAGE_MOST))
    if error.hint is not None:
        said.hint = _cut(error.hint)
    for name in kind.fields:
        value = getattr(error, name)
        setattr(said, name, _cut(value) if isinstance(value, str) else value)
    return said


def error_of(said: common_pb2.ErrorDetail) -> SlotwiseError:
    """The error that a message stands for."""
    kind = _BY_CODE.get(said.kind, SlotwiseError)
    error = kind(said.message, hint=said.hint if said.HasField("hint") else None)
    for name in kind.fields:
        setattr(error, name, getattr(said, name))
    if said.code != kind.code:
        error.code = said.code
    return error


def _cut(text: str, most: int = _TEXT_MOST) -> str:
    """At most so many bytes of UTF-8; bytes of a file name that are none show as escapes."""
    data = text.encode("utf-8", "backslashreplace")
    return data.decode() if len(data) <= most else data[: most - 4].decode("utf-8", "ignore") + " ..."


async def abort(context: Context, error: SlotwiseError) -> NoReturn:
    """End the call that ``context`` belongs to with ``error``."""
    status = getattr(grpc.StatusCode, error.status)
    call.count_error(status.name)
    await context.abort(status, _cut(str(error), _DETAILS_MOST), ((_TRAILER, detail(error).SerializeToString()),))


def answers_errors(method: F) -> F:
    """Decorates a servicer method, unary or streaming: our errors become statuses, surprises INTERNAL and logged."""
    if hasattr(method, "__code__") and method.__code__.co_flags & 0x200:  # async generator

        @functools.wraps(method)
        async def stream(self: object, request: Request, context: Context) -> AsyncIterator[Message]:
            try:
                async for reply in cast("AsyncIterator[Message]", method(self, request, context)):
                    yield reply
            except SlotwiseError as error:
                await _refuse(context, method, error)
            except (grpc.RpcError, grpc.aio.AbortError):
                raise
            except Exception as error:
                _log.exception("%s failed", method.__qualname__)
                await abort(context, errors.InvariantError(f"internal error: {error}"))

        return stream  # type: ignore[return-value]

    @functools.wraps(method)
    async def unary(self: object, request: Request, context: Context) -> Message:
        try:
            return await cast("Awaitable[Message]", method(self, request, context))
        except SlotwiseError as error:
            await _refuse(context, method, error)
        except (grpc.RpcError, grpc.aio.AbortError):
            raise
        except Exception as error:
            _log.exception("%s failed", method.__qualname__)
            await abort(context, errors.InvariantError(f"internal error: {error}"))

    return unary  # type: ignore[return-value]


async def _refuse(context: Context, method: Callable[..., object], error: SlotwiseError) -> NoReturn:
    what = method.__qualname__.replace("Servicer.", "/")
    call.refused(call.peer_of(context), what, error.message, denied=isinstance(error, errors.DeniedError))
    await abort(context, error)

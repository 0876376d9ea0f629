"""The one map between Slotwise's errors and gRPC statuses, both ways."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from slotwise import errors
from slotwise.errors import SlotwiseError

_log = logging.getLogger(__name__)
_BY_CODE: dict[str, type[SlotwiseError]] = {}


def _register(kind: type[SlotwiseError]) -> None:
    _BY_CODE[kind.code] = kind
    for child in kind.__subclasses__():
        _register(child)


_register(SlotwiseError)

_BY_STATUS = {
    "NOT_FOUND": errors.NotFoundError,
    "ABORTED": errors.StaleClaimError,
    "PERMISSION_DENIED": errors.DeniedError,
    "UNAUTHENTICATED": errors.UnauthenticatedError,
    "RESOURCE_EXHAUSTED": errors.BusyError,
    "UNAVAILABLE": errors.PeerUnavailableError,
    "DEADLINE_EXCEEDED": errors.PeerUnavailableError,
    "INVALID_ARGUMENT": errors.UsageError,
    "FAILED_PRECONDITION": errors.HostError,
}

F = TypeVar("F", bound=Callable[..., Any])


def to_error(failure: grpc.RpcError, *, peer: str = "") -> SlotwiseError:
    """The error of ours that a failed call stands for."""
    status = failure.code().name if callable(getattr(failure, "code", None)) else "UNKNOWN"
    details = failure.details() if callable(getattr(failure, "details", None)) else str(failure)
    trailing = failure.trailing_metadata() if callable(getattr(failure, "trailing_metadata", None)) else ()
    code = next((value for name, value in trailing or () if name == "slotwise-error"), None)
    kind = _BY_CODE.get(str(code)) or _BY_STATUS.get(status, SlotwiseError)
    message = str(details or status)
    if kind is errors.PeerUnavailableError and not code:
        message = f"{peer or 'the daemon'} does not answer"
        return kind(message, hint="`slotwise up` starts what does not run")
    return kind(message)


def error_of(code: str, message: str) -> SlotwiseError:
    """The error of ours with this code, as an answer inside a stream carries it."""
    return _BY_CODE.get(code, SlotwiseError)(message)


async def abort(context: Any, error: SlotwiseError) -> None:
    """End the call that ``context`` belongs to with ``error``."""
    status = getattr(grpc.StatusCode, error.status)
    await context.abort(status, str(error), (("slotwise-error", error.code),))


def answers_errors(method: F) -> F:
    """Decorates a servicer method, unary or streaming: our errors become statuses, surprises INTERNAL and logged."""
    if hasattr(method, "__code__") and method.__code__.co_flags & 0x200:  # async generator

        @functools.wraps(method)
        async def stream(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                async for reply in method(self, request, context):
                    yield reply
            except SlotwiseError as error:
                await abort(context, error)
            except (grpc.RpcError, grpc.aio.AbortError):
                raise
            except Exception as error:
                _log.exception("%s failed", method.__qualname__)
                await abort(context, errors.InvariantError(f"internal error: {error}"))

        return stream  # type: ignore[return-value]

    @functools.wraps(method)
    async def unary(self: Any, request: Any, context: Any) -> Any:
        try:
            return await _awaited(method(self, request, context))
        except SlotwiseError as error:
            await abort(context, error)
        except (grpc.RpcError, grpc.aio.AbortError):
            raise
        except Exception as error:
            _log.exception("%s failed", method.__qualname__)
            await abort(context, errors.InvariantError(f"internal error: {error}"))

    return unary  # type: ignore[return-value]


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result

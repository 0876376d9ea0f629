"""What a command says on standard error while a daemon does not answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

import grpc

_SILENT_S = 10.0

Request = TypeVar("Request")


class _Told(threading.local):
    """Whether this thread is within a wait that is told: of waits within each other the outermost is."""

    within = False


_told = _Told()


class Wait:
    """Says on a stream what is waited for, once that has taken 10 s."""

    def __init__(self, stderr: IO[str], daemon: str) -> None:
        self._stderr = stderr
        self._text = f"Waiting for the {daemon}, which has not answered for {_SILENT_S:g} s (`slotwise ping` asks it)\n"
        self._timer = threading.Timer(_SILENT_S, self._tell)
        self._timer.daemon = True

    def begin(self) -> None:
        """Begin to wait."""
        self._timer.start()

    def over(self) -> None:
        """It has answered, or is not waited for any more."""
        self._timer.cancel()

    def _tell(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # who called may be gone
            self._stderr.write(self._text)
            self._stderr.flush()


@contextlib.contextmanager
def told_late(stderr: IO[str], daemon: str) -> Iterator[None]:
    """Say on ``stderr`` that ``daemon`` is waited for, once that has taken 10 s."""
    if _told.within:
        yield
        return
    wait = Wait(stderr, daemon)
    _told.within = True
    wait.begin()
    try:
        yield
    finally:
        _told.within = False
        wait.over()


class _Answers:
    """A call with many replies, whose first one is waited for."""

    def __init__(self, call: grpc.Call, wait: Wait) -> None:
        self._call = call
        self._wait = wait
        wait.begin()
        if not call.add_callback(wait.over):  # it has ended already
            wait.over()

    def __iter__(self) -> _Answers:
        return self

    def __next__(self) -> object:
        try:
            return next(self._call)
        finally:
            self._wait.over()

    def __getattr__(self, name: str) -> object:
        return getattr(self._call, name)


class _Telling(grpc.UnaryUnaryClientInterceptor, grpc.StreamUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Has calls told that are not answered, but for those whose messages go both ways, which may be silent."""

    def __init__(self, stderr: IO[str], daemon: str) -> None:
        self._stderr = stderr
        self._daemon = daemon

    def _one(
        self,
        continuation: Callable[[grpc.ClientCallDetails, Request], grpc.Call],
        details: grpc.ClientCallDetails,
        request: Request,
    ) -> grpc.Call:
        with told_late(self._stderr, self._daemon):
            return continuation(details, request)

    def _many(
        self,
        continuation: Callable[[grpc.ClientCallDetails, Request], grpc.Call],
        details: grpc.ClientCallDetails,
        request: Request,
    ) -> grpc.Call | _Answers:
        call = continuation(details, request)
        return call if _told.within else _Answers(call, Wait(self._stderr, self._daemon))

    intercept_unary_unary = intercept_stream_unary = _one
    intercept_unary_stream = _many


def telling(opened: grpc.Channel, stderr: IO[str], daemon: str) -> grpc.Channel:
    """A channel to ``daemon`` whose calls say on ``stderr`` what they wait for, once that has taken 10 s."""
    return grpc.intercept_channel(opened, _Telling(stderr, daemon))

"""Retries of a client whose schedd goes away, for a limited time, without queueing anything twice.

Every submission has a key. One that may have reached the schedd is sent again with the same key; the schedd queues it
unless it already has, and repeats its answer. Reserved cluster ids survive the schedd, too.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import grpc

from slotwise.backoff import Backoff
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.wire.status import detail_of, to_error

T = TypeVar("T")
_PEER = "the schedd"
#: Statuses of broken calls, besides UNAVAILABLE, if they carry no error of the schedd.
_BROKEN = frozenset((grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL))
_PAUSES = Backoff(first_s=0.05, factor=2.0, most_s=1.0)


def error_of_call(failure: grpc.RpcError | SlotwiseError) -> SlotwiseError:
    """The error behind a failed call; :class:`PeerUnavailableError` if the schedd sent none."""
    if isinstance(failure, SlotwiseError):
        return failure
    if detail_of(failure) is None and callable(getattr(failure, "code", None)) and failure.code() in _BROKEN:
        return lost()
    return to_error(failure, peer=_PEER)


def lost() -> PeerUnavailableError:
    """The error that the schedd went away and did not return in time."""
    return PeerUnavailableError(
        "the schedd went away before it answered", hint="`slotwise q` shows whether the jobs are queued"
    )


class RetryPolicy:
    """How long one client waits for a schedd that went away; a schedd that never answered is not waited for.

    :param most_s: seconds from a break until the client gives up.
    """

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        #: Whether the schedd has answered this client before.
        self.reached = False

    def pauses(self) -> Iterator[float]:
        """Seconds to wait before each further attempt after a break; ends when it is time to give up."""
        deadline = time.monotonic() + self.most_s
        for pause in map(_PAUSES.delay_s, itertools.count(1)):
            if not self.reached or time.monotonic() + pause >= deadline:
                return
            yield pause

    async def acall(self, attempt: Callable[[bool], Awaitable[T]]) -> T:
        """As :meth:`call`, for coroutines."""
        pauses: Iterator[float] | None = None
        while True:
            try:
                found = await attempt(pauses is not None)
            except (grpc.RpcError, PeerUnavailableError) as failure:  # the latter: no schedd is found
                pauses = pauses or self.pauses()
                await asyncio.sleep(self._pause(failure, pauses))
            else:
                self.reached = True
                return found

    def _pause(self, failure: grpc.RpcError | SlotwiseError, pauses: Iterator[float]) -> float:
        error = error_of_call(failure)
        pause = next(pauses, None) if isinstance(error, PeerUnavailableError) else None
        if pause is None:
            raise error from None
        return pause

    def call(self, attempt: Callable[[bool], T]) -> T:
        """The result of ``attempt``, whose argument says whether it is a retry.

        :raises SlotwiseError: the schedd's refusal, or that it does not answer.
        """
        pauses: Iterator[float] | None = None
        while True:
            try:
                found = attempt(pauses is not None)
            except (grpc.RpcError, PeerUnavailableError) as failure:  # the latter: no schedd is found at all
                pauses = pauses or self.pauses()
                time.sleep(self._pause(failure, pauses))
            else:
                self.reached = True
                return found


class Keys:
    """Unique keys for one client's submissions."""

    def __init__(self) -> None:
        self._client = os.urandom(12)
        self._count = 0
        self._lock = threading.Lock()

    def next(self) -> bytes:
        """A new key."""
        with self._lock:
            self._count += 1
            return self._client + self._count.to_bytes(8, "big")

"""Errors of the operating system that no user's file brings about: those of a host, or of a daemon on it, which no job
is held for; and what waits until a shortage is over.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from prometheus_client import Counter

from slotwise.backoff import Backoff
from slotwise.daemon.pause import pause_thread
from slotwise.metrics import REGISTRY
from slotwise.observe.outage import Outage

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Errors of the host, or of the daemon on it, whatever the job does: descriptors and memory of the daemon, disks and
#: file systems that fail or are gone.
_OF_THE_HOST = frozenset(
    {
        errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EIO, errno.EROFS, errno.ESTALE,
        errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.EUCLEAN, errno.EREMOTEIO,
    }
)  # fmt: skip
#: Those of them that no file of a job can bring about: what this process, or the host, has no more of.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_WAITS = Backoff(first_s=0.05, factor=2.0, most_s=5.0)

SHORTAGES = Counter(
    "slotwise_shortages",
    "How often this daemon found no descriptor or memory for a file of a job, by error.",
    ["error"],
    registry=REGISTRY,
)


def is_shortage(number: int | None) -> bool:
    """Whether an errno says that descriptors or memory have run out, whatever was opened or read."""
    return number in _SHORTAGES


def is_of_the_host(number: int | None) -> bool:
    """Whether an errno says that the host is at fault, so that the job is to run elsewhere and not to be held."""
    return number in _OF_THE_HOST


class _Shortage:
    """The shortage that threads of this process wait out; one of them at a time says so in the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outage = Outage(_log)

    def met(self, error: OSError) -> None:
        """One of them has met it."""
        number = error.errno or 0
        SHORTAGES.labels(errno.errorcode.get(number, str(number))).inc()
        text = "files of jobs wait: %s (errno %d); LimitNOFILE= or `ulimit -n` of the daemon raise what it may open"
        if number not in (errno.EMFILE, errno.ENFILE):
            text = "files of jobs wait: %s (errno %d)"
        with self._lock:
            self._outage.failed(time.monotonic(), text, os.strerror(number), number)

    def over(self) -> None:
        """One that has met it goes on."""
        with self._lock:
            self._outage.over(time.monotonic(), "files of jobs are opened")


_shortage = _Shortage()


def waited_out(work: Callable[[], _T], give_up: Callable[[], bool] = lambda: False) -> _T:
    """Do ``work`` on a job's files, again and again while this process, or its host, has no descriptor or memory for
    it. For worker threads of a daemon that would hold the job for the error. ``work`` can be begun anew.

    :param give_up: whether it is not to be tried again; asked after each failure.
    :raises OSError: for every other reason, or once it is given up.
    """
    failures = 0
    while True:
        try:
            done = work()
        except OSError as error:
            failures += 1
            if give_up():
                raise
            _wait(error, failures)
            continue
        if failures:
            _shortage.over()
        return done


def each_waited_out(make: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    """What ``make()`` gives, one after the other; as with :func:`waited_out`, the same is made anew after a shortage,
    without what was given before.

    :raises OSError: for every other reason.
    """
    given = failures = 0
    while True:
        try:
            for number, item in enumerate(make()):
                if number >= given:
                    given += 1
                    if failures:
                        _shortage.over()
                        failures = 0
                    yield item
            return
        except OSError as error:
            failures += 1
            _wait(error, failures)


def _wait(error: OSError, failures: int) -> None:
    if not is_shortage(error.errno):
        raise error
    _shortage.met(error)
    pause_thread(_WAITS.delay_s(failures))

"""Patterns over what comes from outside take time in proportion to its length, with the worst input for each.

Four times the input may take four times as long, not sixteen times. Time of the processor is counted, of a search that
takes none when it is linear: the texts are long enough for a quadratic one to take minutes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
from slotwise.errors import SubmitError
from slotwise.model.proxy import ProxyError, parse
from slotwise.web import submission

#: More than this, in seconds of the processor, is not linear: linear ones take some hundredths.
_MOST_S = 4.0
_SIZE = 400_000


def _proxy(text: bytes) -> None:
    with contextlib.suppress(ProxyError):
        parse(text)


def _macros(text: str) -> None:
    with contextlib.suppress(SubmitError):
        submission._check("arguments", text)


#: What reads, and what it reads.
WORST: dict[str, tuple[Callable[[], None], ...]] = {
    "proxies": tuple(
        (lambda text=text: _proxy(text))  # type: ignore[misc]
        for text in (
            b"-----BEGIN A-----" * (_SIZE // 17),
            b"".join(b"-----BEGIN %d-----" % n for n in range(_SIZE // 20)),
            b"-----BEGIN A-----" * (_SIZE // 34) + b"-----END B-----" * (_SIZE // 30),
            b"-----BEGIN " + b"A" * _SIZE,
            b"-" * _SIZE,
        )
    ),
    "macros of submissions": tuple(
        (lambda text=text: _macros(text))  # type: ignore[misc]
        for text in ("$" * _SIZE, "$" + " " * _SIZE, "$ " * (_SIZE // 2), "$" + "a" * _SIZE, "$a" * (_SIZE // 2))
    ),
}


@pytest.mark.parametrize("reader", WORST)
def test_the_worst_input_takes_time_in_proportion(reader: str) -> None:
    for read in WORST[reader]:
        began = time.process_time()
        read()
        assert time.process_time() - began < _MOST_S, reader


def test_macros_are_found_as_before() -> None:
    for text in ("$(Process)", "a $$(OpSys) b", "$( Cluster )", "$", "$$$", "price: 5$"):
        submission._check("arguments", text)
    for text in ("$ENV(HOME)", "$(HOME)", "$$$(Process)", "$ ENV ( HOME )", "$(", "$$ $(HOME)", "$INT(Process)"):
        with pytest.raises(SubmitError, match="would be the service's own"):
            submission._check("arguments", text)


def test_blocks_of_a_proxy_end_with_the_first_end_of_their_name() -> None:
    from slotwise.model.proxy import _blocks

    text = b"-----BEGIN A-----1-----END B-----2-----END A-----x-----BEGIN B-----BEGIN A-----3-----END A-----"
    assert _blocks(text) == [(b"A", b"1-----END B-----2"), (b"A", b"3")]

"""Waits for what a pool does after an answer: a schedd writes event logs, starts jobs and ends them."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: A loaded machine meets it; the program as a whole is given longer.
LIMIT_S = float(os.environ["SLOTWISE_TEST_LIMIT_S"])


def until(look: Callable[[], T], wanted: Callable[[T], object]) -> T:
    """What ``look`` gives once it is what is wanted; an error with what it gave last if that never comes."""
    limit = time.monotonic() + LIMIT_S
    while not wanted(seen := look()):
        assert time.monotonic() < limit, f"not within {LIMIT_S:.0f} s; seen last: {seen}"
        time.sleep(0.1)
    return seen

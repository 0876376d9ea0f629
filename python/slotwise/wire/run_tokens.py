"""Tokens of runs: with one the starter of a run speaks to the schedd that started it, and to nobody else.

A token has two parts. The first is signed by the schedd, with a key of its own that outlives restarts, as runs do; it
opens the stream of a starter, and nobody but this schedd accepts it. The second is a secret of the run, which the
schedd compares: each run's token counts for that run alone. The signed part is made once, for a signature costs a
hundred times what a secret does, and a schedd starts hundreds of runs a second.
"""

from __future__ import annotations

from collections.abc import Callable

from slotwise import ids
from slotwise.wire import keys
from slotwise.wire.keys import RUN, SigningKey

#: Between the parts; it is in neither.
_BETWEEN = "~"


def run_tokens(key: SigningKey, schedd: str, now: float) -> Callable[[], str]:
    """What makes the token of a new run of the schedd named ``schedd``."""
    signed = keys.mint(key, f"run@{schedd}", [RUN], issued_at=now, audience=schedd)
    return lambda: f"{signed}{_BETWEEN}{ids.secret()}"


def for_stream(token: str) -> str:
    """The part of a run's token that opens a stream to its schedd."""
    return token.partition(_BETWEEN)[0]

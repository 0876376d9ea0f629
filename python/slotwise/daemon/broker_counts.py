"""The file in which a host's shared port leaves what its broker counted, for the ad of the collector beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slotwise.daemon import state_file
from slotwise.home import PoolHome
from slotwise.model.broker_statistics import NAMES

_FILE = "broker.statistics"
#: What it may hold.
_BYTES_MOST = 10_000


def leave(home: PoolHome, counts: Mapping[str, int]) -> None:
    """Write the counts; a failure is logged."""
    state_file.save(home.run / _FILE, dict(counts), lasts=False)


def withdraw(home: PoolHome) -> None:
    """The broker is no more.

    :raises OSError: when its file cannot be removed.
    """
    (home.run / _FILE).unlink(missing_ok=True)


def read(home: PoolHome) -> dict[str, int]:
    """The attributes of this host's broker; all 0 where there is none."""
    found = dict.fromkeys(sorted(NAMES), 0)
    try:
        with (home.run / _FILE).open() as file:
            said = json.loads(file.read(_BYTES_MOST))
    except (OSError, ValueError):
        return found
    if isinstance(said, Mapping):
        found.update((name, value) for name, value in said.items() if name in NAMES and type(value) is int)
    return found

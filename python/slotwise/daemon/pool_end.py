"""The word that the whole pool goes down, and not one daemon of it: a file in ``run/`` until the next start.

A daemon that stops alone leaves its jobs running, to be taken up by its successor. When the pool goes down none comes.
"""

from __future__ import annotations

from slotwise.daemon.privileges import root_files
from slotwise.home import PoolHome

_NAME = "going-down"


def announce(home: PoolHome) -> None:
    """All daemons of the pool are about to be stopped."""
    with root_files():
        (home.run / _NAME).touch(mode=0o644)


def withdraw(home: PoolHome) -> None:
    """The pool comes up."""
    with root_files():
        (home.run / _NAME).unlink(missing_ok=True)


def is_announced(home: PoolHome) -> bool:
    """Whether nobody will take jobs up again that are left running."""
    return (home.run / _NAME).exists()

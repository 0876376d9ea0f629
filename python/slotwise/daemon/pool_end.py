"""The word that the whole pool goes down, and not one daemon of it: a file in ``run/`` until the next start.

A daemon that stops alone leaves its jobs running, to be taken up by its successor. When the pool goes down none comes.

A pool must go down on a full disk, too: the file is there all the time, and has the one name or the other.
"""

from __future__ import annotations

import logging

from slotwise.daemon.privileges import root_files
from slotwise.home import PoolHome

_log = logging.getLogger(__name__)
_NAME = "going-down"
_ELSE = "staying-up"


def announce(home: PoolHome) -> None:
    """All daemons of the pool are about to be stopped. Where that cannot be written they are stopped without it, and
    jobs that should be vacated run on until the pool comes up."""
    with root_files():
        try:
            _rename(home, _ELSE, _NAME)
        except OSError as error:
            _log.error("cannot write in %s that the pool goes down: %s", home.run, error)


def withdraw(home: PoolHome) -> None:
    """The pool comes up.

    :raises OSError: the word stands and cannot be taken back.
    """
    with root_files():
        try:
            _rename(home, _NAME, _ELSE)
        except OSError:
            if is_announced(home):
                raise


def is_announced(home: PoolHome) -> bool:
    """Whether nobody will take jobs up again that are left running."""
    return (home.run / _NAME).exists()


def _rename(home: PoolHome, former: str, name: str) -> None:
    try:
        (home.run / former).rename(home.run / name)
    except FileNotFoundError:
        (home.run / name).touch(mode=0o644)

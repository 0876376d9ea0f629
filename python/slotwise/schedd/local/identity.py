"""The identity of jobs that run on the access point: always their owner's.

Unlike on execution points, there is no fallback account: the job works in its owner's directories, beside the queue.
"""

from __future__ import annotations

import os
from pathlib import Path

from slotwise import accounts
from slotwise.errors import HostError
from slotwise.execution.keeper_spec import Identity


def identity_of(user: str, account: str, least_uid: int) -> Identity:
    """The identity of jobs of ``user``, who has ``account`` here ("": none).

    :param least_uid: SLOTWISE_MIN_UID; root's jobs never run, whatever it says.
    :raises HostError: when they may not run here.
    :raises OSError: when the account cannot be looked up.
    """
    entry = accounts.named(account)
    if entry is None:
        raise HostError(f"Unable to switch to user: {user}", hint="the user needs an account on this host")
    if os.geteuid() != 0:
        if entry.uid != os.geteuid():
            raise HostError(f"Unable to switch to user: {user}", hint="the schedd is not root: it runs its own user's")
        return Identity(home=str(Path.home()))
    if entry.uid == 0:
        raise HostError(f"Unable to switch to user: {user}", hint="no job runs as root: submit as an ordinary account")
    if entry.uid < least_uid:
        raise HostError(f"Unable to switch to user: {user}", hint=f"uid {entry.uid} is too low (SLOTWISE_MIN_UID)")
    return Identity(entry.uid, entry.gid, entry.other_groups, account, entry.home)

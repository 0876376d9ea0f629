"""The identity of jobs that run on the access point: always their owner's.

Unlike on execution points, there is no fallback account: the job works in its owner's directories, beside the queue.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from slotwise.errors import HostError
from slotwise.execution.keeper_spec import Identity


def identity_of(user: str, account: str, least_uid: int) -> Identity:
    """The identity of jobs of ``user``, who has ``account`` here ("": none).

    :param least_uid: SLOTWISE_MIN_UID; root's jobs never run, whatever it says.
    :raises HostError: when they may not run here.
    """
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        raise HostError(f"Unable to switch to user: {user}", hint="the user needs an account on this host") from None
    if os.geteuid() != 0:
        if entry.pw_uid != os.geteuid():
            raise HostError(f"Unable to switch to user: {user}", hint="the schedd is not root: it runs its own user's")
        return Identity(home=str(Path.home()))
    if entry.pw_uid < max(1, least_uid):
        raise HostError(f"Unable to switch to user: {user}", hint=f"uid {entry.pw_uid} is too low (SLOTWISE_MIN_UID)")
    groups = tuple(group for group in os.getgrouplist(account, entry.pw_gid) if group != entry.pw_gid)
    return Identity(entry.pw_uid, entry.pw_gid, groups, account, entry.pw_dir)

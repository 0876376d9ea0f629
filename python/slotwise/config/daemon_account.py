"""The account that root's daemons use for their own work: CONDOR_IDS, else ``condor`` or ``slotwise``, if any.

Source: manual, "User Accounts in HTCondor"; condor_utils/uids.cpp (init_condor_ids).
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping

from msgspec import Struct

from slotwise.errors import ConfigError
from slotwise.model.knobs import Knobs

KNOB = "CONDOR_IDS"
#: The default accounts; the first one that exists is used.
NAMES = ("condor", "slotwise")
_REMEDY = "write CONDOR_IDS = <uid>.<gid> of an account made for the daemons"


class DaemonAccount(Struct, frozen=True):
    """An account of the host: its name, ids and all its groups; ``named``: CONDOR_IDS names it."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    named: bool = False


def daemon_account(config: Knobs, env: Mapping[str, str]) -> DaemonAccount | None:
    """The account, if there is one.

    :raises ConfigError: CONDOR_IDS, in the environment or the configuration, names no account, or root.
    """
    text = env.get(KNOB) or config.get(KNOB)
    if text:
        return _named(text.strip())
    for name in NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return _account(entry, entry.pw_gid, named=False)
    return None


def _named(text: str) -> DaemonAccount:
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", text)
    if found is None:
        raise ConfigError(f"{KNOB} = {text} is not <uid>.<gid>", hint=_REMEDY, key=KNOB)
    uid, gid = int(found[1]), int(found[2])
    if uid == 0 or gid == 0:
        raise ConfigError(f"{KNOB} = {text} names root: daemons would keep its rights", hint=_REMEDY, key=KNOB)
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise ConfigError(f"{KNOB} = {text}: there is no account with uid {uid}", hint=_REMEDY, key=KNOB) from None
    return _account(entry, gid, named=True)


def _account(entry: pwd.struct_passwd, gid: int, *, named: bool) -> DaemonAccount:
    groups = os.getgrouplist(entry.pw_name, gid)
    return DaemonAccount(entry.pw_name, entry.pw_uid, gid, tuple(sorted(set(groups))), named)

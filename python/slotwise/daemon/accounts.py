"""Which accounts of a host may own jobs. Daemons of root act with the rights of a job's owner; others cannot.

HTCondor refuses jobs of root. SLOTWISE_MIN_UID refuses all accounts below a uid, because those of services (a database,
the web server) own files as valuable as root's.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
from pathlib import Path

from slotwise import accounts
from slotwise.config import Config

_log = logging.getLogger(__name__)
_LOGIN_DEFS = Path("/etc/login.defs")
#: The least uid of people where the host does not say.
_USUAL = 1000


def minimum_uid(config: Config, login_defs: Path = _LOGIN_DEFS) -> int:
    """The least uid that may own jobs: SLOTWISE_MIN_UID, else UID_MIN of the host's ``login.defs``, else 1000."""
    wanted = config.get_int("SLOTWISE_MIN_UID")
    if wanted >= 0:
        return wanted
    try:
        text = login_defs.read_text(errors="replace")
    except OSError:
        return _USUAL
    found = re.search(r"^[ \t]*+UID_MIN[ \t]++(\d++)[ \t\r]*+$", text, re.MULTILINE)
    return max(1, int(found[1])) if found else _USUAL


def refused_uid(owner: str, least: int) -> int | None:
    """The uid of an owner whose account may not own jobs; None for all others, and where the daemons are not root's.

    :raises OSError: when the account cannot be looked up.
    """
    if os.geteuid() != 0:
        return None
    found = accounts.named(owner)
    return found.uid if found is not None and found.uid < least else None


def own_account() -> list[str]:
    """The user that runs the daemons of a personal pool; nobody where they are root's.

    :raises OSError: when the account cannot be looked up.
    """
    uid = os.geteuid()
    return [accounts.name_of(uid)] if uid != 0 else []


def named(word: str) -> list[str]:
    """The users that a word of a list of users names: itself, and for ``%group`` all members of the group."""
    if not word.startswith("%"):
        return [word]
    try:
        group = grp.getgrnam(word[1:])
    except KeyError:
        _log.warning("configuration: %s names nobody: this host has no such group", word)
        return []
    primary = [entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == group.gr_gid]
    return list(dict.fromkeys([*group.gr_mem, *primary]))

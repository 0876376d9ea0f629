"""How the startd of a home proves to its starter which daemon it is.

A starter runs whatever it is told to, as any account of the host. No authorization level is enough for that, since
administrators give levels to hosts and to people; nor is the host's key, which daemons that have given up root can
read. So the starter makes a key when it begins, for root alone where the daemons are root's, and the startd signs with
it what it shows.
"""

from __future__ import annotations

import os
import time

from slotwise.daemon.privileges import root_files
from slotwise.errors import DeniedError
from slotwise.home import PoolHome
from slotwise.wire import contact, keys
from slotwise.wire.credential import Metadata, bearer, require_safe
from slotwise.wire.keys import STARTER, SigningKey
from slotwise.wire.security import Authenticator
from slotwise.wire.token import write_secret

_FILE = "starter.pem"
#: How long a token of the startd holds, in seconds: its stream is opened again then.
_HOLDS_S = 86400.0


def accept_startd(home: PoolHome, authenticator: Authenticator) -> None:
    """Make the key, and believe tokens that are signed with it (at the starter)."""
    key = SigningKey.generate()
    with root_files():
        write_secret(home.run / _FILE, key.pem())
    authenticator.accept(key, STARTER)


def shown_to_starter(home: PoolHome, target: str) -> Metadata:
    """What the startd shows the starter at ``target``; nothing where there is no key yet.

    :raises DeniedError: when the key is not this daemon's account's, or others could read it.
    """
    require_safe(target, proof=True)
    path = home.run / _FILE
    with root_files():
        try:
            owner = path.lstat().st_uid
        except FileNotFoundError:
            return ()
        if owner != os.geteuid():
            raise DeniedError(f"{path} belongs to uid {owner}", hint="restart the starter, which makes a new one")
        key = SigningKey.read(path)
    return bearer(
        keys.mint(
            key,
            "condor@startd",
            [STARTER],
            issued_at=time.time(),
            lifetime_s=_HOLDS_S,
            audience=contact.audience_of(target),
        )
    )

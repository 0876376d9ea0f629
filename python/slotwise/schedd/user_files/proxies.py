"""Proxy certificates of jobs: what the access point itself reads of them, so that nobody says it of himself.

``x509userproxy`` names the file; x509UserProxySubject, Expiration and Email come from the file, read with the owner's
rights, and are refused in submissions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.model import proxy
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.user_files.owner_rights import as_owner
from slotwise.transfer import safe_open

_FILE = "x509userproxy"
#: What a proxy tells of its user.
_TOLD = frozenset(
    {f"x509userproxy{what}" for what in ("subject", "expiration", "email", "voname", "firstfqan", "fqan")}
)


def check(names: Iterable[str]) -> None:
    """See that a submission does not say itself what its proxy tells.

    :raises UsageError: when it does.
    """
    for name in names:
        if name.lower() in _TOLD:
            raise UsageError(f"the attribute {name} is read from the proxy", hint="set x509userproxy, and no more")


def proxy_of(ad: ClassAd) -> str:
    """The proxy that is to be read when the job is submitted; empty: none, or it is still to be spooled."""
    path, iwd = ad.get(_FILE), ad.get("Iwd")
    if not isinstance(path, str) or not path or ad.get("HoldReasonCode") == int(Hold.SPOOLING_INPUT):
        return ""
    return os.path.join(iwd if isinstance(iwd, str) else "/", path)


def read(path: str, owner: str, fallback: str) -> Changes:
    """What a proxy tells (worker thread); nothing when it cannot be read, which is found out when it is sent."""
    try:
        with as_owner(owner, fallback):
            descriptor = safe_open.regular(path)
        with open(descriptor, "rb") as file:
            return dict(proxy.parse(file.read(proxy.LARGEST)).attributes())
    except (OSError, proxy.ProxyError):
        return {}

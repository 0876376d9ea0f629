"""Reads proxy certificates of jobs at the access point, so that submitters cannot forge their attributes.

``x509userproxy`` names the file; x509UserProxySubject, Expiration and Email are read from it with the owner's rights,
and refused in submissions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from slotwise.classad import ClassAd
from slotwise.errors import UsageError
from slotwise.model import proxy
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.user_files.owner_rights import FileOwner, as_owner
from slotwise.transfer import safe_open

_FILE = "x509userproxy"
#: The attributes that are read from the proxy.
_TOLD = frozenset(
    {f"x509userproxy{what}" for what in ("subject", "expiration", "email", "voname", "firstfqan", "fqan")}
)


def check(names: Iterable[str]) -> None:
    """Check that a submission does not set the attributes of its proxy.

    :raises UsageError: when it does.
    """
    for name in names:
        if name.lower() in _TOLD:
            raise UsageError(f"the attribute {name} is read from the proxy", hint="set x509userproxy, and no more")


def proxy_of(ad: ClassAd) -> str:
    """The path of the proxy to read at submission; empty: none, or it will be spooled."""
    path, iwd = ad.get(_FILE), ad.get("Iwd")
    if not isinstance(path, str) or not path or ad.get("HoldReasonCode") == int(Hold.SPOOLING_INPUT):
        return ""
    return os.path.join(iwd if isinstance(iwd, str) else "/", path)


def read(path: str, owner: FileOwner, fallback: str) -> Changes:
    """The attributes of a proxy (worker thread); none when it cannot be read, which fails when it is transferred."""
    try:
        with as_owner(owner, fallback):
            descriptor = safe_open.regular(path)
        with open(descriptor, "rb") as file:
            return dict(proxy.parse(file.read(proxy.LARGEST)).attributes())
    except (OSError, proxy.ProxyError):
        return {}

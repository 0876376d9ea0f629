"""Decides about credentials: which a submission may ask for, when a token is renewed, which stored one fits. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum

import msgspec

from slotwise.errors import UsageError
from slotwise.model.credential_names import CredentialRequest
from slotwise.schedd.credentials.settings import CredentialSettings, Kind
from slotwise.schedd.credentials.store import StoredFile

#: How long a token counts as valid whose service does not say so, seconds.
_USUAL_S = 3600.0
#: Universes whose jobs get no credentials: no starter delivers them.
_WITHOUT = {7: "scheduler", 12: "local", 13: "vm"}


class Match(Enum):
    """How a stored credential answers a request."""

    FITS = "fits"
    DIFFERS = "differs"
    #: It is not JSON, so that nobody knows.
    UNREADABLE = "unreadable"


def matches(top: bytes, request: CredentialRequest) -> Match:
    """Whether a stored credential was stored for the scopes and the audience of a request."""
    try:
        said = msgspec.json.decode(top, type=dict[str, object])
    except msgspec.DecodeError:
        return Match.UNREADABLE
    stored = tuple(listed(str(said.get(key) or "")) for key in ("scopes", "audience"))
    return Match.FITS if stored == (request.scopes, request.audience) else Match.DIFFERS


def listed(text: str) -> str:
    """Scopes or audiences with commas between them, however they were written."""
    return ",".join(text.replace(",", " ").split())


def is_due(use: StoredFile | None, lifetime_s: float | None, now: float) -> bool:
    """Whether a token is to be renewed: half of its time is over, or there is none.

    :param lifetime_s: how long tokens of the service are valid, for files that do not say so.
    """
    if use is None:
        return True
    expires: object = None
    try:
        said = msgspec.json.decode(use.data, type=dict[str, object])
        expires = said.get("expires_in")
        expires = float(expires) if isinstance(expires, str) else expires
    except (msgspec.DecodeError, ValueError):
        pass
    if not isinstance(expires, int | float) or not math.isfinite(expires) or expires <= 0:
        expires = lifetime_s or _USUAL_S
    return not use.at <= now < use.at + expires / 2


def completed(
    requests: Iterable[CredentialRequest], universe: object, settings: CredentialSettings
) -> list[CredentialRequest]:
    """The requests of a submission with what holds where they say nothing.

    :raises UsageError: when they cannot be met, whatever is stored.
    """
    found = []
    if isinstance(universe, int) and universe in _WITHOUT:
        raise UsageError(
            f"jobs of the {_WITHOUT[universe]} universe get no credentials",
            hint="take use_oauth_services out; the job reads the token from a file of its own",
        )
    if settings.directory is None:
        raise UsageError(
            "this access point keeps no credentials",
            hint="its administrator sets SEC_CREDENTIAL_DIRECTORY_OAUTH (use feature : oauth), or the job names the "
            "token's file in transfer_input_files",
        )
    for request in requests:
        name, defaults = request.name, settings.requirements(request.name.service)
        suffix = f"_{name.handle}" if name.handle else ""
        for missing, command in (
            (defaults.must_say_scopes and not request.scopes, "PERMISSIONS"),
            (defaults.must_say_audience and not request.audience, "RESOURCE"),
        ):
            if missing:
                raise UsageError(
                    f"You must specify {name.service}_OAUTH_{command}{suffix} to use OAuth service {name.service}",
                    hint="the access point requires it",
                )
        if request.options:
            raise UsageError(
                f"{name.service}_OAUTH_OPTIONS{suffix} is for a credential storer, which this access point has not",
                hint="take it out",
            )
        if settings.kind(name.service) is Kind.LOCAL:
            if name.handle:
                raise UsageError(
                    f"OAuth error: Local Issuer credential '{name.service}' can't have a handle",
                    hint="the access point signs one token for each user",
                )
            if request.scopes or request.audience:
                raise UsageError(
                    f"OAuth error: Local Issuer credential '{name.service}' can't have user-provided scope or audience",
                    hint="the access point decides on both",
                )
            found.append(request)
            continue
        scopes, audience = request.scopes or defaults.scopes, request.audience or defaults.audience
        found.append(CredentialRequest(name, scopes, audience))
    return found

"""Names of the credentials that an access point keeps: a service, and a handle where a user has several of one service.

A job names them in OAuthServicesNeeded, as ``service`` or ``service*handle`` with commas between. The file of the token
that a job uses is ``service.use`` or ``service_handle.use``. Source: manual, "Enabling the fetching and use of OAuth2
credentials"; which characters a name may have, HTCondor's ``okay_for_oauth_filename``.
"""

from __future__ import annotations

import re

from msgspec import Struct

from slotwise.errors import UsageError

#: The longest name of a service, or of a handle.
_LONGEST = 100
_PLAIN = re.compile(r"[A-Za-z0-9+=_-][A-Za-z0-9+=_.-]*")
#: What ends the name of the file of a token that jobs use.
USE = ".use"


class CredentialName(Struct, frozen=True, order=True):
    """One credential of a user; see :meth:`of`."""

    service: str
    handle: str = ""

    @classmethod
    def of(cls, service: str, handle: str = "") -> CredentialName:
        """The credential of a service and a handle ("" for none).

        :raises UsageError: when one of them cannot be part of the name of a file.
        """
        _check("service", service)
        if handle:
            _check("handle", handle)
        return cls(service, handle)

    @classmethod
    def needed(cls, text: str) -> tuple[CredentialName, ...]:
        """The credentials that a job names in OAuthServicesNeeded.

        :raises UsageError: when one cannot be the name of a credential.
        """
        found = {}
        for word in text.replace(",", " ").split():
            service, _, handle = word.partition("*")
            found[word] = cls.of(service, handle)
        return tuple(found.values())

    @property
    def stem(self) -> str:
        """The name of its files, without what says which file it is."""
        return f"{self.service}_{self.handle}" if self.handle else self.service

    @property
    def shown(self) -> str:
        """The name as OAuthServicesNeeded has it."""
        return f"{self.service}*{self.handle}" if self.handle else self.service

    @property
    def remedy(self) -> str:
        """How its user stores it."""
        handle = f" --handle {self.handle}" if self.handle else ""
        return f"store one with `htcondor credential add oauth2 FILE --service {self.service}{handle}`"


def _check(what: str, text: str) -> None:
    if len(text) > _LONGEST or not _PLAIN.fullmatch(text):
        raise UsageError(
            f"{text[:_LONGEST]!r} cannot be a {what}",
            hint=f"it has letters, digits and - + = _ . within, at most {_LONGEST} characters",
        )


class CredentialRequest(Struct, frozen=True):
    """What a job asks of one credential besides its name: words with commas between, "" for nothing."""

    name: CredentialName
    scopes: str = ""
    audience: str = ""
    options: str = ""


def requests_of(needed: str, details: str) -> tuple[CredentialRequest, ...]:
    """The credentials of OAuthServicesNeeded with what OAuthRequests asks of them:
    ``service&handle=H&scopes=A,B&audience=C``, with blanks between.

    :raises UsageError: when one of the two cannot be read.
    """
    names = CredentialName.needed(needed)
    asked: dict[CredentialName, dict[str, str]] = {}
    for word in details.split():
        service, *pairs = word.split("&")
        values = dict(pair.partition("=")[::2] for pair in pairs)
        handle = values.pop("handle", "")
        if strange := values.keys() - {"scopes", "audience", "options"}:
            raise UsageError(f"OAuthRequests asks for {min(strange)!r} of {service!r}", hint="scopes or audience")
        asked[CredentialName(service, handle)] = values
    return tuple(CredentialRequest(name, **asked.get(name, {})) for name in names)

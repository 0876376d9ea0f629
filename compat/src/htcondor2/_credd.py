"""``Credd``: the credentials that an access point keeps of its users. Its schedd does the work of a condor_credd."""

from __future__ import annotations

from collections.abc import Iterable

from classad2 import ClassAd
from slotwise.client import Schedd as Client
from slotwise.errors import NotFoundError, SlotwiseError

from htcondor2 import _pool
from htcondor2._enums import CredType
from htcondor2._errors import HTCondorException


class CredCheck:
    """Whether an access point has the tokens of services."""

    def __init__(self, services: object, url_or_error: str) -> None:
        self._services = services
        is_url = url_or_error.startswith(("http://", "https://"))
        self._url = url_or_error if is_url else None
        self._error = None if is_url or not url_or_error else url_or_error

    @property
    def services(self) -> object:
        """The services that were asked about."""
        return self._services

    @property
    def url(self) -> str | None:
        """Where the user gets the tokens; None when that is not known."""
        return self._url

    @property
    def error(self) -> str | None:
        """Why they cannot be had; None when they are there, or there is a page to get them."""
        return self._error

    def __str__(self) -> str:
        return str(self.url or self.error or self.services)

    def __bool__(self) -> bool:
        return self.url is not None

    @property
    def present(self) -> bool:
        """Whether the tokens are there."""
        return self._url is None and self._error is None


class Credd:
    """The credentials of this host's access point, or of the one of an ad."""

    def __init__(self, location: ClassAd | None = None) -> None:
        if location is not None and not isinstance(location, ClassAd):
            raise TypeError("location must be a ClassAd")
        self._addr = None if location is None else _pool.address_of(location, "schedd")

    def _client(self) -> Client:
        return _pool.client(Client, self._addr)

    # ---- tokens of services

    def add_user_service_cred(
        self,
        credtype: CredType,
        credential: bytes | str | None,
        service: str,
        handle: str | None = None,
        user: str | None = None,
        refresh: bool | None = None,
    ) -> None:
        """Store a credential of a service.

        :raises HTCondorException: the access point refuses.
        """
        _require_oauth(credtype)
        if credential is None:
            raise ValueError("credential may not be empty")
        content = credential.encode() if isinstance(credential, str) else bytes(credential)
        with _pool.calling("the schedd"):
            self._client().store_credential(service, content, handle=handle or "", user=user or "", refreshed=refresh)

    def delete_user_service_cred(
        self, credtype: CredType, service: str | None, handle: str | None = None, user: str | None = None
    ) -> None:
        """Remove a credential of a service, or all where none is named.

        :raises HTCondorException: the access point refuses.
        """
        _require_oauth(credtype)
        with _pool.calling("the schedd"):
            self._client().delete_credential(service or "", handle=handle or "", user=user or "")

    def query_user_service_cred(
        self, credtype: CredType, service: str | None, handle: str | None = None, user: str | None = None
    ) -> str | None:
        """An ad in the old syntax with the times of the files that are stored; None when none is.

        :raises HTCondorException: the access point refuses.
        """
        _require_oauth(credtype)
        with _pool.calling("the schedd"):
            try:
                found = self._client().credentials(service or "", handle=handle or "", user=user or "")
            except NotFoundError:
                return None
        stem = f"{service}_{handle}" if handle else service
        known = {f"{stem}.top": f"Top{stem}Time", f"{stem}.use": str(stem)} if stem else {}
        # Names of files are no names of attributes that an ad would print.
        lines = [f'fully_qualified_user = "{found.user}"']
        return "\n".join([*lines, *(f"{known.get(name, name)} = {int(at)}" for name, at in found.files.items()), ""])

    def check_user_service_creds(
        self, credtype: CredType, serviceAds: Iterable[ClassAd], user: str | None = None
    ) -> CredCheck:
        """Whether the tokens of services are there; those that the access point signs itself are made.

        :raises HTCondorException: the access point cannot be asked.
        """
        _require_oauth(credtype)
        if user is not None:
            raise HTCondorException("a user checks credentials of its own: leave user out")
        names, requests = [], []
        for ad in serviceAds:
            if not isinstance(ad, ClassAd):
                raise TypeError("service must be of type classad.ClassAd")
            service, handle = str(ad.get("Service") or ""), str(ad.get("Handle") or "")
            if not service:
                raise ValueError("request has no 'Service' attribute")
            names.append(f"{service}*{handle}" if handle else service)
            wishes = [("handle", handle), ("scopes", ad.get("Scopes")), ("audience", ad.get("Audience"))]
            asked = [f"{key}={','.join(str(value).replace(',', ' ').split())}" for key, value in wishes if value]
            requests.append("&".join([service, *asked]))
        services = ",".join(names)
        try:
            self._client().check_credentials(services, " ".join(requests))
        except SlotwiseError as error:
            return CredCheck(services, str(error))
        return CredCheck(services, "")

    def get_oauth2_credential(self, service: str, handle: str | None = None, user: str | None = None) -> str:
        """The token that one's jobs get.

        :raises HTCondorException: there is none, or it is another user's.
        """
        if user is not None:
            raise HTCondorException("a token is given to its own user alone: leave user out")
        with _pool.calling("the schedd"):
            return self._client().fetch_credential(service, handle=handle or "").decode("utf-8", "surrogateescape")

    # ---- what is not kept

    def add_password(self, password: str, user: str | None = None) -> None:
        """Refused: passwords and Kerberos tickets are not kept.

        :raises HTCondorException: always.
        """
        raise HTCondorException("passwords are not kept: only tokens of services are (add_user_service_cred)")

    def delete_password(self, user: str | None = None) -> bool:
        """There is none."""
        return False

    def query_password(self, user: str | None = None) -> bool:
        """There is none."""
        return False

    def add_user_cred(self, credtype: CredType, credential: bytes | None, user: str | None = None) -> None:
        """Refused.

        :raises HTCondorException: always.
        """
        raise HTCondorException("passwords and Kerberos tickets are not kept: see add_user_service_cred")

    def delete_user_cred(self, credtype: CredType, user: str | None = None) -> None:
        """Nothing: there is none."""

    def query_user_cred(self, credtype: CredType, user: str | None = None) -> int | None:
        """None: passwords and Kerberos tickets are not kept."""
        return None


def _require_oauth(credtype: CredType) -> None:
    if credtype != CredType.OAuth:
        raise ValueError("invalid credtype")

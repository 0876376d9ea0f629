"""Exchanges refresh tokens for access tokens (RFC 6749, section 6), as a client of services of OAuth2. Blocks."""

from __future__ import annotations

import io
import json
import os
from urllib.parse import urlencode, urlsplit

import msgspec
import pycurl
from msgspec import Struct

from slotwise.daemon import privileges
from slotwise.errors import HostError
from slotwise.schedd.credentials.settings import ClientSettings

#: How long a service may take to answer, seconds; the largest answer, and the largest file of a secret, bytes.
_LIMIT_S, _LARGEST = 30, 65536
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Tokens(Struct, frozen=True):
    """What a service has answered: the file of the token for jobs, and the refresh token to use from now on."""

    use: bytes
    refresh_token: str


def refresh_token_of(top: bytes) -> str:
    """The refresh token of a stored credential: JSON with ``refresh_token``, or the bare token.

    :raises HostError: when it is neither.
    """
    text = top.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            found = msgspec.json.decode(text.encode(), type=dict[str, msgspec.Raw])
            return msgspec.json.decode(found["refresh_token"], type=str)
        except (msgspec.DecodeError, KeyError):
            text = ""
    if not text or not text.isprintable() or " " in text:
        raise HostError(
            "the stored credential has no refresh token", hint="store JSON with refresh_token, or the token"
        )
    return text


def with_refresh_token(top: bytes, token: str) -> bytes:
    """The stored credential with another refresh token; what else it says stays."""
    said: dict[str, object] = {}
    if top.lstrip().startswith(b"{"):
        said = msgspec.json.decode(top, type=dict[str, object])
    return json.dumps({**said, "refresh_token": token}).encode()


def read_answer(service: str, status: int, body: bytes, former: str) -> Tokens:
    """What a service's answer means.

    :param former: the refresh token that was sent; it goes on where the service names no other.
    :raises HostError: when it gives no token.
    """
    try:
        said = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        said = {}
    token = said.get("access_token")
    if status != 200 or not isinstance(token, str) or not token:
        # Descriptions of errors are for people (RFC 6749, 5.2); the rest of an answer may be secret.
        why = ": ".join(str(said[key])[:200] for key in ("error", "error_description") if key in said)
        hint = "the user stores a new one" if said.get("error") == "invalid_grant" else "see the knobs of the service"
        raise HostError(f"{service} gives no token (HTTP {status}{', ' + why if why else ''})", hint=hint)
    following = said.pop("refresh_token", None)
    use = json.dumps(said).encode()
    return Tokens(use, following if isinstance(following, str) and following else former)


def refresh(service: str, client: ClientSettings, top: bytes) -> Tokens:
    """Exchange the refresh token of a stored credential.

    :raises HostError: when the service gives no token, or is not set up.
    """
    parts = urlsplit(client.token_url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise HostError(f"{service}_TOKEN_URL is {client.token_url!r}", hint="it begins with https://")
    token = refresh_token_of(top)
    fields = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client.client_id}
    if client.secret_file:
        fields["client_secret"] = _secret(client.secret_file)
    status, body = _post(service, client.token_url, urlencode(fields))
    return read_answer(service, status, body, token)


def _post(service: str, url: str, form: str) -> tuple[int, bytes]:
    answer = io.BytesIO()

    def take(data: bytes) -> int:
        # Another number than that of the bytes has curl end the transfer.
        return answer.write(data) if answer.tell() + len(data) <= _LARGEST else -1

    curl = pycurl.Curl()
    try:
        for option, value in (
            (pycurl.URL, url),
            (pycurl.POSTFIELDS, form),
            (pycurl.HTTPHEADER, ["Accept: application/json"]),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTPS | pycurl.PROTO_HTTP),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.TIMEOUT, _LIMIT_S),
            (pycurl.NOSIGNAL, 1),
            (pycurl.WRITEFUNCTION, take),
        ):
            curl.setopt(option, value)
        curl.perform()
        return int(curl.getinfo(pycurl.RESPONSE_CODE)), answer.getvalue()
    except pycurl.error as error:
        why = error.args[-1] if error.args else "no answer"
        raise HostError(f"{service} cannot be asked for a token: {why}", hint="see its TOKEN_URL") from None
    finally:
        curl.close()


def _secret(path: str) -> str:
    try:
        with privileges.root_files():
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(_LARGEST).decode().strip()
    except (OSError, UnicodeDecodeError):
        raise HostError(f"the client's secret {path} cannot be read", hint="see its CLIENT_SECRET_FILE") from None

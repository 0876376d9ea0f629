"""Which bearer token goes with a URL.

``provider[.handle]+https://...`` names a credential of the job: the file ``provider[_handle].use`` in _CONDOR_CREDS. A
URL of https that names none gets the token of BEARER_TOKEN or BEARER_TOKEN_FILE, as WLCG's token discovery has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

#: A credential's name: a part of a file name, never a path.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class TokenError(Exception):
    """A token that a URL asks for cannot be had; the text never has the token, as it becomes a hold reason."""


def split(url: str) -> tuple[str, str]:
    """The name of the credential ("" for none) that a URL begins with, and the URL itself."""
    scheme, mark, rest = url.partition("://")
    name, _, plain = scheme.rpartition("+")
    return name, f"{plain}{mark}{rest}"


def token_for(name: str, url: str, env: Mapping[str, str]) -> str:
    """The token for ``url``, which names the credential ``name``; empty when it goes without one.

    :raises TokenError: when it is not there, or not to be read.
    """
    if name:
        return _of_credential(name, env)
    if not url.lower().startswith("https://"):
        return ""
    if token := env.get("BEARER_TOKEN", "").strip():
        return token
    place = env.get("BEARER_TOKEN_FILE", "")
    return _text(place).strip() if place else ""


def _of_credential(name: str, env: Mapping[str, str]) -> str:
    directory = env.get("_CONDOR_CREDS", "")
    if not directory:
        raise TokenError(f"Credential for {name} requested but $_CONDOR_CREDS not set")
    if not _NAME.fullmatch(name):
        raise TokenError(f"{name!r} is not the name of a credential")
    token = ""
    for line in _text(f"{directory}/{name.replace('.', '_')}.use").splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if words[0] not in "{[":
            return words
        token = _of_json(words)
    return token


def _of_json(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        raise TokenError("Unable to parse token as JSON") from None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not token:
        raise TokenError("No 'access_token' key in JSON object")
    return token


def _text(place: str) -> str:
    try:
        return Path(place).read_text("utf-8")
    except OSError as error:
        raise TokenError(f"Unable to open credential file {place}: {error.strerror} (errno={error.errno})") from None
    except UnicodeDecodeError:
        raise TokenError(f"The credential file {place} is not text") from None

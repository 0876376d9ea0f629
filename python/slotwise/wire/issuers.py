"""Tokens that others sign: SciTokens of issuers that the administrator trusts, mapped to users of the pool.

SLOTWISE_TRUSTED_ISSUERS names a file of JSON, ``{"https://issuer": {"keys": [JWK, ...]}, ...}``: the public keys are
there, so that no daemon asks the network who may sign. SLOTWISE_SCITOKENS_AUDIENCE is what tokens must be made for. A
map file (CERTIFICATE_MAPFILE) makes users of ``issuer,subject``, by lines of the method SCITOKENS. Manual, "SciTokens
Authentication" and "The Authentication Map File".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
from msgspec import Struct

from slotwise.errors import ConfigError, UnauthenticatedError
from slotwise.wire import map_file
from slotwise.wire.map_file import UserMap
from slotwise.wire.token import LEVELS, Claims, Identity, with_implied

if TYPE_CHECKING:
    from slotwise.config import Config

METHOD = "SCITOKENS"
#: Asymmetric ones only: nobody who can check a token may make one.
_ALGORITHMS = ["ES256", "ES384", "RS256", "RS384", "RS512", "EdDSA"]
_PREFIX = "condor:/"
#: Scopes of WLCG that say what a level says.
_COMPUTE = {
    "compute.read": "READ",
    "compute.create": "WRITE",
    "compute.modify": "WRITE",
    "compute.cancel": "WRITE",
}


class Issuers(Struct, frozen=True):
    """Trusted issuers with their keys, what tokens must be made for, and whom they stand for.

    ``keys``: for each issuer its keys by their ids.
    """

    keys: Mapping[str, Mapping[str, jwt.PyJWK]]
    audience: Sequence[str]
    users: UserMap

    def knows(self, token: str) -> bool:
        """Whether a token says that one of the issuers made it; unchecked."""
        return _unchecked(token).get("iss") in self.keys

    def identity(self, token: str) -> Identity:
        """Who a token stands for.

        :raises UnauthenticatedError: when it is not valid, is for somebody else, or maps to nobody.
        """
        issuer = str(_unchecked(token).get("iss", ""))
        claims = self._claims(token, issuer)
        subject = str(claims["sub"])
        name = self.users.user(METHOD, f"{issuer},{subject}")
        levels = levels_of(claims.get("scope"))
        expires = float(claims["exp"])
        return Identity(name, levels, METHOD, str(claims.get("jti", "")), expires)

    def _claims(self, token: str, issuer: str) -> Claims:
        try:
            header = jwt.get_unverified_header(token)
            known = self.keys.get(issuer, {})
            kid = str(header.get("kid", ""))
            key = known.get(kid) or (next(iter(known.values())) if len(known) == 1 and not kid else None)
            if key is None:
                raise UnauthenticatedError(
                    f"the issuer {issuer} has no key {kid!r}", hint="add it to the file of issuers"
                )
            if header.get("alg") not in _ALGORITHMS or key.algorithm_name not in ("", header.get("alg")):
                raise UnauthenticatedError(
                    f"the token of {issuer} is signed with {header.get('alg')}, which is refused"
                )
            found: Claims = jwt.decode(
                token,
                key.key,
                algorithms=[str(header["alg"])],
                audience=list(self.audience),
                issuer=issuer,
                options={"require": ["sub", "exp", "iss", "aud"], "verify_iat": False},
            )
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(f"the token of {issuer} is not valid here: {error}") from None
        return found


def levels_of(scope: object) -> frozenset[str]:
    """The authorization levels of a token's scopes: ``condor:/WRITE``, ``compute.read``; none for other scopes."""
    words = scope if isinstance(scope, list) else str(scope or "").split()
    levels = [str(word).removeprefix(_PREFIX) for word in words if str(word).startswith(_PREFIX)]
    levels += [_COMPUTE[word] for word in words if word in _COMPUTE]
    return with_implied(level for level in levels if level in LEVELS)


def _unchecked(token: str) -> Claims:
    try:
        claims: Claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return {}
    return claims


def read(config: Config) -> Issuers | None:
    """The issuers that a configuration trusts; None when it trusts none.

    :raises ConfigError: for a file that cannot be used, or that others than its owner may write.
    """
    path = config.get("SLOTWISE_TRUSTED_ISSUERS")
    if not path:
        return None
    knob = "SLOTWISE_TRUSTED_ISSUERS"
    audience = config.get_list("SLOTWISE_SCITOKENS_AUDIENCE")
    if not audience:
        raise ConfigError(
            f"{knob} is set and SLOTWISE_SCITOKENS_AUDIENCE is not, so that a token for anybody would do",
            hint="write the audience that tokens for this pool have, as the URL of the access point",
            key="SLOTWISE_SCITOKENS_AUDIENCE",
        )
    try:
        said = json.loads(map_file.trusted(Path(path), knob))
        keys = {str(issuer): _keys(entry["keys"]) for issuer, entry in said.items()}
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        hint = 'write {"https://issuer": {"keys": [...]}}, the keys as the issuer publishes them (JWKS)'
        raise ConfigError(f"{path} is not a file of issuers: {error}", hint=hint, key=knob) from None
    users = map_file.read(config)
    return Issuers(keys, audience, users)


def _keys(found: list[dict[str, object]]) -> dict[str, jwt.PyJWK]:
    keys = {}
    for each in found:
        if each.get("kty") == "oct":
            raise ValueError("it has a symmetric key, with which whoever checks tokens could make them")
        keys[str(each.get("kid", ""))] = jwt.PyJWK(each)
    return keys

"""Signs tokens for users (LOCAL_CREDMON_*): SciTokens, or those of WLCG's profile.

Source: manual, "Installing the credmon"; HTCondor's ``LocalCredmon``. A user without the required group gets an empty
token, as there. Claims are decided by :func:`claims_of`; the rest reads and makes keys, and blocks.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from slotwise.classad import ClassAd
from slotwise.daemon import privileges
from slotwise.errors import HostError
from slotwise.schedd.credentials.settings import IssuerSettings

_log = logging.getLogger(__name__)
ALGORITHMS = ("ES256", "RS256")
#: The largest file of keys or groups, bytes.
_LARGEST = 1 << 20


def claims_of(user: str, groups: Iterable[str], rules: IssuerSettings, now: float, token_id: str) -> dict[str, object]:
    """The claims of a token for an account.

    :param groups: those that the account is in.
    :raises HostError: when the settings make no token.
    """
    scopes = [rules.template.replace("{username}", user)]
    if rules.expression is not None:
        further = ClassAd({"Username": user, "Scopes": rules.expression}).eval("Scopes")
        if not isinstance(further, str):
            raise HostError(
                f"LOCAL_CREDMON_AUTHZ_TEMPLATE_EXPR does not make a text for {user}", hint="correct the expression"
            )
        scopes.append(further)
    if rules.group_template:
        scopes += [rules.group_template.replace("{groupname}", group) for group in groups]
    claims: dict[str, object] = {
        "iss": rules.issuer,
        "sub": user,
        "scope": " ".join(scope for scope in scopes if scope),
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + rules.lifetime_s,
        "jti": token_id,
    }
    if rules.version in ("wlcg", "wlcg:1.0"):
        claims["wlcg.ver"] = "1.0"
    elif rules.version:
        claims["ver"] = rules.version
    if rules.audiences:
        claims["aud"] = list(rules.audiences)
    elif rules.version.lower() == "scitoken:2.0":
        raise HostError("a token of version scitoken:2.0 needs an audience", hint="set LOCAL_CREDMON_TOKEN_AUDIENCE")
    return claims


def groups_of(user: str, text: str) -> tuple[str, ...]:
    """The groups of an account by the text of LOCAL_CREDMON_AUTHZ_GROUP_MAPFILE: lines ``* USER GROUP,GROUP``."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0] == "*" and words[1] == user:
            return tuple(group for group in words[2].split(",") if group)
    return ()


def issue(user: str, rules: IssuerSettings, now: float, token_id: str) -> bytes:
    """The file of a new token for an account.

    :raises HostError: when none can be made.
    """
    groups: tuple[str, ...] = ()
    if rules.group_template or rules.required_group:
        if not rules.group_file:
            raise HostError("the groups of users are not known", hint="set LOCAL_CREDMON_AUTHZ_GROUP_MAPFILE")
        groups = groups_of(user, _read(Path(rules.group_file)).decode("utf-8", "replace"))
    token = ""
    if rules.required_group and rules.required_group not in groups:
        _log.error("%s is not in the group %s: its token is empty", user, rules.required_group)
    else:
        token = _sign(claims_of(user, groups, rules, now, token_id), rules)
    if rules.use_json:
        return json.dumps({"access_token": token, "expires_in": rules.lifetime_s}).encode()
    return f"{token}\n".encode()


def _sign(claims: dict[str, object], rules: IssuerSettings) -> str:
    if rules.algorithm not in ALGORITHMS:
        raise HostError(
            f"LOCAL_CREDMON_PRIVATE_KEY_ALGORITHM is {rules.algorithm}", hint=f"it is {' or '.join(ALGORITHMS)}"
        )
    pem = _found(rules.private_key) or _make_key(rules)
    try:
        return jwt.encode(claims, pem.decode("ascii"), algorithm=rules.algorithm, headers={"kid": rules.key_id})
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        # What the library says may have parts of the key.
        raise HostError(
            f"{rules.private_key} is no key of {rules.algorithm}",
            hint="LOCAL_CREDMON_PRIVATE_KEY_ALGORITHM names its kind",
        ) from None


def _found(path: Path) -> bytes | None:
    """A file of the administrator's; None when there is none."""
    try:
        with privileges.root_files():
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}", hint="see LOCAL_CREDMON_*") from None


def _read(path: Path) -> bytes:
    if (data := _found(path)) is None:
        raise HostError(f"{path} is not there", hint="see LOCAL_CREDMON_*")
    return data


def _make_key(rules: IssuerSettings) -> bytes:
    """A new key, in its file, with its public part beside it."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if rules.algorithm == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        with privileges.root_files():
            _write(rules.private_key, private, 0o600)
            _write(rules.public_key, public, 0o644)
    except FileExistsError:
        return _read(rules.private_key)
    except OSError as error:
        raise HostError(
            f"{error.filename} cannot be written: {error.strerror}",
            hint="make a key, and set LOCAL_CREDMON_PRIVATE_KEY",
        ) from None
    _log.info("made the key %s for tokens; its public part is in %s", rules.private_key, rules.public_key)
    return private


def _write(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_EXCL if mode == 0o600 else os.O_TRUNC)
    with open(os.open(path, flags, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)

"""The keys that tokens are signed with, all Ed25519, and the tokens that they sign. Free of gRPC.

====================================  ============================================================================
``secrets/signing/<key id>.pem``      private keys of the pool: on the central manager and nowhere else
``secrets/pool.json``                 what every host of the pool trusts: its public keys by id, and what is revoked
``secrets/host.pem``                  this host's own private key, which never leaves it
``secrets/host.token``                the pool's word, bound to that key, on what daemons of this host may do
``secrets/access-point.pem``          the key of a schedd for tokens that it alone accepts
``secrets/address.pem``               the TLS key that addresses of this host name (SLOTWISE_ADDRESS_KEY)
``secrets/bearer.token``              in a glide-in, in place of ``host.token``: the token that it was given
====================================  ============================================================================

Several keys of the pool hold at the same time, so that one can be replaced while the pool runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from slotwise import ids
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome
from slotwise.wire import base64url
from slotwise.wire.secret_file import made_once
from slotwise.wire.token import IMPLIED, LEVELS, Claims, require_private, write_secret

# Commands that neither sign nor read a key start a quarter sooner without these.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM = "EdDSA"
#: A new key signs once every host has had the time to hear of it, in seconds.
SETTLE_S = 120
#: The scope of a run's own token, with which its starter speaks to the schedd.
RUN = "RUN"
#: The scope of what a startd shows the starter of its home, see :mod:`slotwise.daemon.starter_key`.
STARTER = "STARTER"
#: Scopes that are no levels: no list grants them, and only keys of one daemon sign for them.
_OF_ONE_DAEMON = frozenset({RUN, STARTER})


class SigningKey:
    """A private key, with an id that follows from its public half."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """The key of a file.

        :raises DeniedError: when it is not there, may not be read, may be read by others, or is not such a key.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise DeniedError(f"no key at {path}") from None
        except OSError as error:
            raise DeniedError(f"{path} cannot be read: {error.strerror}") from None
        require_private(path)
        try:
            private = serialization.load_pem_private_key(data, None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise DeniedError(f"{path} is not an Ed25519 key")
        return cls(private)

    @classmethod
    def of_file(cls, path: Path) -> SigningKey:
        """The key of a file, made when there is none. Of several who make it, all get the same.

        :raises DeniedError: as :meth:`read`.
        """
        made_once(path, lambda: cls.generate().pem())
        return cls.read(path)

    def pem(self) -> str:
        """The key as a file has it."""
        from cryptography.hazmat.primitives import serialization

        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self.private.private_bytes(*form).decode()

    @cached_property
    def public(self) -> Ed25519PublicKey:
        """The public half."""
        return self.private.public_key()

    @cached_property
    def kid(self) -> str:
        """The key's id."""
        return key_id(self.public)


def public_text(public: Ed25519PublicKey) -> str:
    """A public key as the member ``x`` of a JWK."""
    from cryptography.hazmat.primitives import serialization

    return base64url.encoded(public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw))


def public_key(text: str) -> Ed25519PublicKey:
    """The public key of :func:`public_text`.

    :raises UnauthenticatedError: when it is none.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        return Ed25519PublicKey.from_public_bytes(base64url.decoded(text))
    except (ValueError, TypeError):
        raise UnauthenticatedError("this is not an Ed25519 public key") from None


def key_id(public: Ed25519PublicKey) -> str:
    """The id of a key: the beginning of the digest of its public half."""
    return hashlib.sha256(public_text(public).encode()).hexdigest()[:16]


def revocation_of(public_text: str) -> str:
    """What the list of revoked ids has for a host's key: all tokens that are bound to it are revoked."""
    return f"key:{key_id(public_key(public_text))}"


#: What the list of revoked ids has for a host that was removed: see :attr:`PoolTrust.removed_hosts`.
_HOST = "host:"


def mint(
    key: SigningKey,
    identity: str,
    scopes: Iterable[str],
    *,
    issued_at: float,
    lifetime_s: float | None = None,
    issuer: str = "",
    audience: str = "",
    bound_to: str = "",
    **more: object,
) -> str:
    """A token for ``identity`` (``user@domain``) with ``scopes``; without a lifetime it does not expire.

    :param issuer: who issues it: the pool's name for tokens of the pool.
    :param audience: who accepts it: the pool's name, or an address.
    :param bound_to: the public key of the only one who can use it.
    :raises DeniedError: for a scope that is not one.
    """
    import jwt

    wanted = sorted(set(scopes))
    _require_scopes(set(wanted) - _OF_ONE_DAEMON)
    claims: Claims = {
        "iss": issuer,
        "aud": audience,
        "sub": identity,
        "scope": " ".join(wanted),
        "jti": ids.secret(),
        "iat": int(issued_at),
        **more,
    }
    if lifetime_s is not None:
        claims["exp"] = int(issued_at + lifetime_s)
    if bound_to:
        claims["cnf"] = {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": bound_to}}
    return jwt.encode(claims, key.private, algorithm=ALGORITHM, headers={"kid": key.kid})


def _require_scopes(scopes: set[str]) -> None:
    if unknown := sorted(scopes - IMPLIED.keys()):
        raise DeniedError(f"unknown scope {unknown[0]}", hint=f"scopes are {', '.join(LEVELS)}")


class PoolTrust(Struct, frozen=True, dict=True):
    """What ``secrets/pool.json`` says: the pool's name, its public keys by id, and what is revoked."""

    pool: str = ""
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    #: Ids of revoked tokens, with the time of that.
    revoked: dict[str, int] = field(default_factory=dict)
    #: SEC_TOKEN_REVOCATION_EXPR of the central manager.
    revocation_expr: str = ""

    @cached_property
    def removed_hosts(self) -> dict[str, int]:
        """Hosts that were removed from the pool, with the time of that: claims at them from before are void."""
        return {name.removeprefix(_HOST): at for name, at in self.revoked.items() if name.startswith(_HOST)}

    @classmethod
    def of_text(cls, text: str) -> PoolTrust:
        """What a file or the collector says.

        :raises UnauthenticatedError: when it is not such a text.
        """
        try:
            found = json.loads(text)
            keys = {str(key["kid"]): public_key(str(key["x"])) for key in found["keys"]}
            revoked = {str(name): int(at) for name, at in found.get("revoked", {}).items()}
            return cls(str(found["pool"]), keys, revoked, str(found.get("revocation_expr", "")))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnauthenticatedError("the pool's public keys cannot be read", hint="see secrets/pool.json") from None

    def text(self) -> str:
        """The text of the file."""
        keys = [
            {"kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "kid": kid, "x": public_text(key)}
            for kid, key in sorted(self.keys.items())
        ]
        members = {"pool": self.pool, "keys": keys, "revoked": self.revoked, "revocation_expr": self.revocation_expr}
        return json.dumps(members, indent=1, sort_keys=True) + "\n"


class PoolSecrets:
    """The files of ``secrets/`` that tokens are about."""

    def __init__(self, home: PoolHome) -> None:
        self._directory = home.secrets
        self.trust_file = home.secrets / "pool.json"
        self.token_file = home.secrets / "host.token"
        self.bearer_file = home.secrets / "bearer.token"
        self.address_key_file = home.secrets / "address.pem"
        self.old_key = home.secrets / "pool.key"
        self._held: dict[Path, tuple[float, SigningKey]] | None = None

    @property
    def has_word(self) -> bool:
        """Whether the pool has granted this host anything."""
        return self.token_file.exists() or self.bearer_file.exists()

    def hold_signing_keys(self) -> None:
        """Keep the private keys as they are now in memory: this process will not be able to read them any more.

        :raises DeniedError: when somebody else may have put them there.
        """
        directory = self._directory / "signing"
        if directory.exists() and directory.lstat().st_uid != os.geteuid():
            raise DeniedError(f"{directory} does not belong to root", hint="who made it? `chown -R root` it if you did")
        self._held = {path: (path.stat().st_mtime, SigningKey.read(path)) for path in self.signing}

    @property
    def signing(self) -> list[Path]:
        """Files of the pool's private keys, oldest first; none on hosts that are not the central manager."""
        if self._held is not None:
            return sorted(self._held, key=self._made_at)
        found = (self._directory / "signing").glob("*.pem")
        return sorted((path for path in found if not path.name.startswith(".")), key=self._made_at)

    def _made_at(self, path: Path) -> float:
        return path.stat().st_mtime if self._held is None else self._held[path][0]

    @property
    def is_central(self) -> bool:
        """Whether this host signs the pool's tokens."""
        return bool(self.signing)

    def require_upgraded(self) -> None:
        """See that the pool is not one of the kind that had one key for all.

        :raises DeniedError: when it is.
        """
        if self.old_key.exists():
            raise DeniedError(
                f"the tokens of this pool are signed with {self.old_key}, a key that every host has",
                hint="`slotwise token upgrade` on the central manager makes keys of its own; other hosts join anew",
            )

    def create(self, pool: str) -> None:
        """Make the first key of the pool ``pool``, unless there is one.

        :raises DeniedError: when there is a key of the old kind.
        """
        self.require_upgraded()
        with self._locked():
            if not self.is_central:
                directory = self._directory / "signing"
                directory.mkdir(mode=0o700, exist_ok=True)
                key = SigningKey.generate()
                write_secret(directory / f"{key.kid}.pem", key.pem())
            elif self.trust_file.exists():
                return
            known = self.trust()
            self.write_trust(PoolTrust(known.pool or pool, self._public(), known.revoked, known.revocation_expr))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time changes the pool's keys."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _public(self) -> dict[str, Ed25519PublicKey]:
        keys = [SigningKey.read(path) for path in self.signing]
        return {key.kid: key.public for key in keys}

    def add_key(self) -> str:
        """A further key, which signs as soon as all hosts know it; returns its id."""
        key = SigningKey.generate()
        with self._locked():
            self._require_central()
            write_secret(self._directory / "signing" / f"{key.kid}.pem", key.pem())
            known = self.trust()
            self.write_trust(PoolTrust(known.pool, self._public(), known.revoked, known.revocation_expr))
        return key.kid

    def remove_key(self, kid: str) -> None:
        """Take a key away: tokens that it signed are worth nothing any more.

        :raises DeniedError: when it is the only one, or not there.
        """
        paths = {path.stem: path for path in self.signing}
        if kid not in paths:
            raise DeniedError(f"the pool has no key {kid}", hint=f"its keys are {', '.join(paths)}")
        if len(paths) == 1:
            raise DeniedError(
                f"{kid} is the pool's only key", hint="make another first: `slotwise token keys --rotate`"
            )
        with self._locked():
            paths[kid].unlink()
            known = self.trust()
            self.write_trust(PoolTrust(known.pool, self._public(), known.revoked, known.revocation_expr))

    def revoke(self, token_id: str, now: float) -> None:
        """Revoke a token by its id."""
        self._revoke({token_id: int(now)})

    def revoke_host(self, name: str, public_text: str, now: float) -> None:
        """Revoke all tokens that are bound to a host's key, and what was claimed at the host until now."""
        self._revoke({revocation_of(public_text): int(now), f"{_HOST}{name.lower()}": int(now)})

    def _revoke(self, what: dict[str, int]) -> None:
        with self._locked():
            known = self.trust()
            revoked = {**known.revoked, **what}
            self.write_trust(PoolTrust(known.pool, known.keys, revoked, known.revocation_expr))

    def revoke_by(self, expression: str) -> None:
        """Revoke all tokens of which an expression is true, on all hosts."""
        with self._locked():
            known = self.trust()
            if known.pool and known.revocation_expr != expression:
                self.write_trust(PoolTrust(known.pool, known.keys, known.revoked, expression))

    def _require_central(self) -> list[Path]:
        paths = self.signing
        if not paths:
            raise DeniedError(
                f"this host has no key to sign tokens with ({self._directory / 'signing'})",
                hint="only the central manager has; ask there with `slotwise token request`",
            )
        return paths

    def signer(self, now: float | None = None) -> SigningKey:
        """The key that signs: the newest one that all hosts have had the time to hear of.

        :raises DeniedError: when this host is not the central manager.
        """
        paths = self._require_central()
        at = time.time() if now is None else now
        settled = [path for path in paths if self._made_at(path) <= at - SETTLE_S]
        signs = settled[-1] if settled else paths[0]
        return SigningKey.read(signs) if self._held is None else self._held[signs][1]

    def trust(self) -> PoolTrust:
        """What this host trusts; nothing when it has not joined a pool.

        :raises UnauthenticatedError: when the file is spoilt.
        """
        try:
            return PoolTrust.of_text(self.trust_file.read_text())
        except FileNotFoundError:
            return PoolTrust()

    def write_trust(self, trust: PoolTrust) -> None:
        """Replace what this host trusts."""
        write_secret(self.trust_file, trust.text())

    def mint(
        self,
        identity: str,
        scopes: Iterable[str],
        *,
        now: float,
        lifetime_s: float | None = None,
        bound_to: str = "",
    ) -> str:
        """A token of the pool.

        :raises DeniedError: when this host is not the central manager, or for a scope that is not one.
        """
        pool, wanted = self.trust().pool, set(scopes)
        _require_scopes(wanted)
        return mint(
            self.signer(now),
            identity,
            wanted,
            issued_at=now,
            lifetime_s=lifetime_s,
            issuer=pool,
            audience=pool,
            bound_to=bound_to,
        )

    def host_key(self) -> SigningKey:
        """This host's own key, made when there is none."""
        return SigningKey.of_file(self._directory / "host.pem")

    def access_point_key(self) -> SigningKey:
        """The key of this home's schedd, made when there is none."""
        return SigningKey.of_file(self._directory / "access-point.pem")

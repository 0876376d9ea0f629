"""Addresses that name a key: ``host:port?key=...``, for daemons of hosts that have no certificate.

A daemon with SLOTWISE_ADDRESS_KEY has a TLS key of its home's own, and each address that it tells others names the
public half. Who connects verifies that key, and no name: whoever the address came from has vouched for it, be it the
collector with the ad of a glide-in or the file that a glide-in was given. No authority takes part, and nobody can name
a host falsely.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from slotwise.errors import DeniedError, PeerUnavailableError
from slotwise.wire import base64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

#: The name that certificates of these keys carry, whatever the host; no name service knows it.
NAME = "address-key.slotwise.invalid"
_ISSUER = "Slotwise address key"


class AddressKey:
    """A private key that addresses name."""

    def __init__(self, private: EllipticCurvePrivateKey) -> None:
        self._private = private

    @classmethod
    def of_file(cls, path: Path) -> AddressKey:
        """The key of a file, made when there is none. Of several who make it, all get the same.

        :raises DeniedError: when it may not be read, may be read by others, or is not such a key.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        from slotwise.wire.secret_file import made_once
        from slotwise.wire.token import require_private

        made_once(path, lambda: cls(ec.generate_private_key(ec.SECP256R1())).pem().decode())
        require_private(path)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError):
            private = None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise DeniedError(f"{path} is not a key of an address", hint=f"remove it: a new one is made ({path.name})")
        return cls(private)

    def pem(self) -> bytes:
        """The key as a file has it."""
        from cryptography.hazmat.primitives import serialization

        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._private.private_bytes(*form)

    @property
    def text(self) -> str:
        """The public half as addresses have it."""
        from cryptography.hazmat.primitives import serialization

        form = (serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
        return base64url.encoded(self._private.public_key().public_bytes(*form))

    def credentials(self) -> grpc.ServerCredentials:
        """What a daemon with this key shows to its callers."""
        leaf = _certificate(self._private.public_key(), self._private, authority=False)
        return grpc.ssl_server_credentials([(self.pem(), leaf)])


def _public(text: str) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), base64url.decoded(text))
    except ValueError:
        raise PeerUnavailableError(
            f"the address names {text[:80]!r}, which is not a key", hint="copy the address with its whole key"
        ) from None


@lru_cache(maxsize=4096)
def channel_credentials(text: str) -> grpc.ChannelCredentials:
    """Credentials of connections that trust the key ``text`` and nothing else.

    The authority that they trust is made here, for a public key that is all that is known of it: nobody checks what a
    root of trust is signed with.

    :raises PeerUnavailableError: when it is not a key.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    root = _certificate(_public(text), ec.generate_private_key(ec.SECP256R1()), authority=True)
    return grpc.ssl_channel_credentials(root)


def _certificate(public: EllipticCurvePublicKey, signer: EllipticCurvePrivateKey, *, authority: bool) -> bytes:
    """A certificate of ``public`` whose issuer is the authority of the same key, or that authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    builder = (
        x509.CertificateBuilder()
        .subject_name(named(_ISSUER if authority else NAME))
        .issuer_name(named(_ISSUER))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # The key ends with its home. Clocks of hosts that are in no pool yet count for nothing.
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

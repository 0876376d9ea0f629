"""An authority of certificates, made for a test."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from slotwise.config import load

_PLAIN = serialization.PrivateFormat.PKCS8


def common_name(name: str) -> x509.Name:
    """``/CN=name``."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def full_name() -> str:
    """This host's name as daemons advertise it."""
    return load(None, env={}).get("FULL_HOSTNAME") or socket.gethostname()


class Authority:
    """Signs certificates and keeps them in a directory: ``ca.pem``, and ``<name>.pem`` with ``<name>.key``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = common_name(f"authority {directory.name}")
        made = self._signed(self._name, self._key.public_key(), authority=True)
        self.file = directory / "ca.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        subject: x509.Name | None = None,
        *,
        begins: timedelta = timedelta(days=-5),
        ends: timedelta = timedelta(days=2),
        host: str = "",
    ) -> Path:
        """A certificate, of ``/CN=name`` unless ``subject`` says otherwise; returns its file.

        :param host: the name of the host that it is for; empty for this host.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        named = subject if subject is not None else common_name(name)
        made = self._signed(named, key.public_key(), begins=begins, ends=ends, host=host)
        path = self.directory / f"{name}.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        file = path.with_suffix(".key")
        file.touch(0o600)
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, _PLAIN, serialization.NoEncryption()))
        return path

    def _signed(
        self,
        subject: x509.Name,
        public: ec.EllipticCurvePublicKey,
        *,
        authority: bool = False,
        begins: timedelta = timedelta(days=-5),
        ends: timedelta = timedelta(days=2),
        host: str = "",
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            names: list[x509.GeneralName] = [x509.DNSName(host)]
            if not host:
                names = [x509.DNSName(own) for own in sorted({"localhost", full_name()})]
                names.append(x509.IPAddress(ip_address("127.0.0.1")))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

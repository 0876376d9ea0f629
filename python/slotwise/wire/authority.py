"""The pool's own certificate authority: makes it, and the certificates of hosts. Free of gRPC.

============================================  ==========================================================================
``secrets/signing/authority/<serial>.key``    private key of an authority (ECDSA, P-256): on the central manager only
``secrets/signing/authority/<serial>.pem``    its certificate
``tls/ca.pem``                                on each host: the authorities that the pool trusts, who signs first
``tls/host.pem``, ``tls/host.key``            the host's certificate with the authority that signed it, and its own key
============================================  ==========================================================================

A host's certificate has one name, and is good for servers only: who calls is proved by the host's key for tokens
(:mod:`slotwise.wire.keys`). The authority may sign names of the pool's domains only, where these are known.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.home import PoolHome
from slotwise.wire.token import require_private, write_secret

#: How long an authority holds, in seconds.
AUTHORITY_S = 10 * 365 * 86400
#: A further authority signs once hosts have had the time to hear of it, in seconds.
SETTLE_S = 2 * 86400.0
#: Certificates begin this much earlier, in seconds: clocks of hosts differ.
_EARLIER_S = 3600
#: Bytes of a request for a certificate, at most.
_REQUEST_MOST = 8192
_FINGERPRINT = "SHA256:"


class _Signer(Struct, frozen=True):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def id(self) -> str:
        return _stem(self.certificate.serial_number)

    @property
    def domains(self) -> list[str]:
        """The domains that it may sign names of; none: any."""
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        except x509.ExtensionNotFound:
            return []
        return [str(each.value) for each in found.permitted_subtrees or []]


class Described(Struct, frozen=True):
    """An authority, for listings. ``ends_at``: epoch seconds."""

    id: str
    signs: bool
    ends_at: float
    domains: list[str]
    fingerprint: str

    def fields(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "Id": self.id,
            "Signs": self.signs,
            "EndsAt": int(self.ends_at),
            "Domains": self.domains,
            "Fingerprint": self.fingerprint,
        }


class Request(Struct, frozen=True):
    """A request for a certificate that has been checked: its sender has the private key.

    :param key_id: SHA-256 of the public key (SubjectPublicKeyInfo), hexadecimal.
    """

    public: ec.EllipticCurvePublicKey
    key_id: str


def directory_of(home: PoolHome) -> Path:
    """Where the authority's keys are; root's where daemons have an account."""
    return home.secrets / "signing" / "authority"


class Authority:
    """The pool's authorities with their keys, in memory."""

    def __init__(self, signers: Sequence[_Signer]) -> None:
        self._signers = sorted(signers, key=lambda each: each.certificate.not_valid_before_utc)

    @classmethod
    def make(cls, home: PoolHome, pool: str, domains: Sequence[str], now: float) -> None:
        """Make a further authority, which is the first one if there is none.

        :param domains: only hosts with names of these domains get certificates that others accept; none: any.
        """
        directory = directory_of(home)
        directory.parent.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        name = _name(f"{pool} authority")
        made = (
            _builder(name, name, key.public_key(), serial, now, AUTHORITY_S)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
        )
        if domains:
            permitted = [x509.DNSName(domain) for domain in domains]
            made = made.add_extension(x509.NameConstraints(permitted, None), critical=True)
        certificate = made.sign(key, hashes.SHA256())
        stem = _stem(serial)
        write_secret(directory / f"{stem}.key", private_pem(key))
        write_secret(directory / f"{stem}.pem", _pem(certificate))

    @classmethod
    def read(cls, home: PoolHome) -> Authority | None:
        """The authority of this home; None on hosts that have none.

        :raises DeniedError: when a key may be read by others, or cannot be read.
        """
        signers = []
        try:
            for path in sorted(directory_of(home).glob("*.pem")):
                key_file = path.with_suffix(".key")
                require_private(key_file)
                key = serialization.load_pem_private_key(key_file.read_bytes(), None)
                if not isinstance(key, ec.EllipticCurvePrivateKey):
                    raise DeniedError(f"{key_file} is not a key of an authority")
                signers.append(_Signer(x509.load_pem_x509_certificate(path.read_bytes()), key))
        except (OSError, ValueError, TypeError) as error:
            raise DeniedError(f"the authority in {directory_of(home)} cannot be read: {error}") from None
        return cls(signers) if signers else None

    def _signing(self, now: float, settle_s: float) -> _Signer:
        """The newest authority that all hosts have had the time to hear of."""
        settled = [each for each in self._signers if _began(each.certificate) <= now - settle_s]
        return settled[-1] if settled else self._signers[0]

    def bundle(self, now: float, settle_s: float = SETTLE_S) -> str:
        """What hosts trust, the authority that signs first (PEM)."""
        signs = self._signing(now, settle_s)
        return "".join(_pem(each.certificate) for each in [signs, *(one for one in self._signers if one is not signs)])

    def issue(self, request: Request, name: str, now: float, lifetime_s: float, settle_s: float = SETTLE_S) -> str:
        """A certificate for the host ``name``, followed by the authority that signed it (PEM)."""
        signs = self._signing(now, settle_s)
        authority = signs.certificate
        lasts = min(lifetime_s, authority.not_valid_after_utc.timestamp() - now)
        common = [name] if len(name) <= 64 else []
        key_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        made = (
            _builder(_name(*common), authority.subject, request.public, x509.random_serial_number(), now, lasts)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=not common)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
            .sign(signs.key, hashes.SHA256())
        )
        return _pem(made) + _pem(authority)

    def permits(self, name: str, now: float, settle_s: float = SETTLE_S) -> bool:
        """Whether the authority may sign certificates for a host of this name."""
        domains = self._signing(now, settle_s).domains
        return not domains or any(name == domain or name.endswith(f".{domain}") for domain in domains)

    def domains(self) -> list[str]:
        """The domains that the newest authority may sign names of."""
        return self._signers[-1].domains

    def described(self, now: float, settle_s: float = SETTLE_S) -> list[Described]:
        """All authorities, the oldest first."""
        signs = self._signing(now, settle_s)
        return [
            Described(
                each.id,
                each is signs,
                each.certificate.not_valid_after_utc.timestamp(),
                each.domains,
                fingerprint(_pem(each.certificate)),
            )
            for each in self._signers
        ]

    def needed_for(self, authority_id: str, now: float, lifetime_s: float) -> float:
        """How long hosts may still have certificates of an authority that are in use, in seconds; 0: none has.

        :raises NotFoundError: when there is no such authority.
        """
        signers = {each.id: each for each in self._signers}
        if authority_id not in signers:
            raise NotFoundError(f"the pool has no authority {authority_id}", hint=f"it has {', '.join(signers)}")
        later = [one for one in self._signers if _began(one.certificate) > _began(signers[authority_id].certificate)]
        if not later:
            return float("inf") if self._signing(now, SETTLE_S).id == authority_id else 0.0
        return max(0.0, _began(later[0].certificate) + SETTLE_S + lifetime_s - now)

    def remove(self, home: PoolHome, authority_id: str) -> None:
        """Remove an authority.

        :raises DeniedError: when it is the only one.
        """
        if len(self._signers) == 1:
            raise DeniedError(f"{authority_id} is the pool's only authority", hint="make another first, with --add")
        for suffix in ("pem", "key"):
            (directory_of(home) / f"{authority_id}.{suffix}").unlink(missing_ok=True)


def _stem(serial: int) -> str:
    return f"{serial:x}"[:16]


def _began(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp() + _EARLIER_S


def _name(*common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64]) for text in common])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    serial: int,
    now: float,
    lasts_s: float,
) -> x509.CertificateBuilder:
    begins, ends = (
        datetime.datetime.fromtimestamp(at, datetime.UTC) for at in (int(now - _EARLIER_S), int(now + lasts_s))
    )
    return (
        x509.CertificateBuilder(issuer, subject, public, serial, begins, ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )  # fmt: skip


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """A private key as a file has it."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


# ------------------------------------------------------------------------------------------------------- on the host


def host_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key of a host's certificate, made when there is none; it never leaves the host.

    :raises DeniedError: when the file has another key, or others may read it.
    """
    if not path.exists():
        write_secret(path, private_pem(ec.generate_private_key(ec.SECP256R1())))
    require_private(path)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise DeniedError(f"{path} cannot be read as a private key: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DeniedError(f"{path} is not an elliptic-curve key", hint="remove it, and a new one is made")
    return key


def request_for(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """A request (DER) for a certificate of ``key``; the authority decides on the name."""
    common = _name(name) if len(name) <= 64 else _name()
    made = x509.CertificateSigningRequestBuilder(common).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


def checked(request: bytes) -> Request:
    """A request for a certificate whose sender has proved to have the private key. What else it says is not looked at.

    :raises UsageError: when it is not such a request.
    """
    try:
        if len(request) > _REQUEST_MOST:
            raise ValueError("it is too long")
        found = x509.load_der_x509_csr(request)
        public = found.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            raise ValueError("its key is not one of the curve P-256")
        if not found.is_signature_valid:
            raise ValueError("it is not signed with its own key")
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"the request for a certificate is refused: {error}") from None
    return Request(public, key_id_of(public))


def key_id_of(public: ec.EllipticCurvePublicKey) -> str:
    """The digest of a public key."""
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public.public_bytes(*form)).hexdigest()


def ends_at(pem: str | bytes) -> float:
    """When the first certificate of a text ends, in epoch seconds.

    :raises UsageError: when there is none.
    """
    return _first(pem).not_valid_after_utc.timestamp()


def begins_at(pem: str | bytes) -> float:
    """From when on the first certificate of a text counts, in epoch seconds.

    :raises UsageError: when there is none.
    """
    return _first(pem).not_valid_before_utc.timestamp()


def is_signed_by(pem: str | bytes, authorities: str | bytes) -> bool:
    """Whether one of ``authorities`` has signed the first certificate of a text, itself or by those that follow it.

    :raises UsageError: when either text has no certificate.
    """
    known, (last, *between) = _all(authorities), _all(pem)
    while True:
        if any(last == one or _has_signed(one, last) for one in known):
            return True
        if (after := next((one for one in between if _has_signed(one, last)), None)) is None:
            return False
        between.remove(after)
        last = after


def _has_signed(signer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def due_at(pem: str | bytes) -> float:
    """When the first certificate of a text is to be renewed: when a third of its life is left.

    :raises UsageError: when there is none.
    """
    found = _first(pem)
    began, ends = _began(found), found.not_valid_after_utc.timestamp()
    return ends - (ends - began) / 3


def signer_fingerprint(pem: str | bytes) -> str:
    """The fingerprint of the authority behind the first certificate of a text; empty without one."""
    try:
        found = x509.load_pem_x509_certificates(pem.encode() if isinstance(pem, str) else pem)
    except ValueError:
        return ""
    return fingerprint(_pem(found[1])) if len(found) > 1 else ""


def _first(pem: str | bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode() if isinstance(pem, str) else pem)
    except ValueError as error:
        raise UsageError(f"this is not a certificate: {_cause(error)}") from None


def _all(pem: str | bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode() if isinstance(pem, str) else pem)
    except ValueError as error:
        raise UsageError(f"these are not certificates: {_cause(error)}") from None


def _cause(error: ValueError) -> str:
    """What the library says, without its advice to those who call it."""
    return str(error).partition(" See ")[0].rstrip(".")


def first_pem(pem: str) -> str:
    """The first certificate of a text.

    :raises UsageError: when there is none.
    """
    return _pem(_first(pem))


def is_of(pem: str | bytes, key: bytes) -> bool:
    """Whether the first certificate of a text is one of the private key ``key`` (PEM)."""
    try:
        private = serialization.load_pem_private_key(key, None)
        form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return _first(pem).public_key().public_bytes(*form) == private.public_key().public_bytes(*form)
    except (UsageError, ValueError, TypeError):
        return False


def fingerprint(pem: str) -> str:
    """The digest of the first certificate of a text, for people to compare: ``SHA256:`` and base64, as of SSH keys.

    :raises UsageError: when there is none.
    """
    digest = _first(pem).fingerprint(hashes.SHA256())
    return _FINGERPRINT + base64.b64encode(digest).rstrip(b"=").decode()


def same_fingerprint(pem: str, given: str) -> bool:
    """Whether the first certificate of a text has the fingerprint that a person gave: as :func:`fingerprint` writes it,
    or in hexadecimal, as ``openssl x509 -fingerprint -sha256`` does.

    :raises UsageError: when what was given is not a fingerprint.
    """
    digest = _first(pem).fingerprint(hashes.SHA256())
    text = re.sub(r"^sha256[:=]", "", given.strip(), flags=re.IGNORECASE)
    bare = text.replace(":", "")
    if re.fullmatch(r"[0-9A-Fa-f]{64}", bare):
        return bytes.fromhex(bare) == digest
    if not re.fullmatch(r"[A-Za-z0-9+/]{43}=?", text):
        raise UsageError(f"{given!r} is not a fingerprint", hint="SHA256: and 43 letters, digits, + or /")
    return base64.b64encode(digest).rstrip(b"=").decode() == text.rstrip("=")


def certificate_of_server(host: str, port: int, timeout_s: float = 10.0) -> str:
    """The certificate (PEM) that a server shows, unverified.

    :raises OSError: when it does not answer, or not with TLS.
    """
    import socket
    import ssl

    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    anybody.set_alpn_protocols(["h2"])
    with socket.create_connection((host, port), timeout_s) as plain, anybody.wrap_socket(plain) as opened:
        shown = opened.getpeercert(binary_form=True)
    if shown is None:
        raise OSError("it shows no certificate")
    return ssl.DER_cert_to_PEM_cert(shown)

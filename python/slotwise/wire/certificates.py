"""Client certificates as identities: HTCondor's authentication method SSL.

gRPC checks a certificate against AUTH_SSL_SERVER_CAFILE and AUTH_SSL_SERVER_CADIR when a connection is made, at ports
that require one. Its subject, written as HTCondor's map files have it (``/DC=org/CN=alice``), is the principal that
CERTIFICATE_MAPFILE maps. The certificate says who calls and nothing else: what the caller may do, lists say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slotwise.authorization.policy import CERTIFICATE_METHOD
from slotwise.errors import UnauthenticatedError
from slotwise.wire.token import Identity

if TYPE_CHECKING:
    from cryptography import x509

    from slotwise.wire.map_file import UserMap

#: Names of attributes as OpenSSL abbreviates them; of others the number stands.
_NAMES = {
    "2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
    "2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
    "2.5.4.15": "businessCategory", "2.5.4.16": "postalAddress", "2.5.4.17": "postalCode", "2.5.4.18": "postOfficeBox",
    "2.5.4.20": "telephoneNumber", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials",
    "2.5.4.44": "generationQualifier", "2.5.4.45": "x500UniqueIdentifier", "2.5.4.46": "dnQualifier",
    "2.5.4.65": "pseudonym", "2.5.4.72": "role", "2.5.4.97": "organizationIdentifier",
    "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.3": "mail", "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress", "1.2.840.113549.1.9.2": "unstructuredName",
    "1.3.6.1.4.1.311.60.2.1.1": "jurisdictionL", "1.3.6.1.4.1.311.60.2.1.2": "jurisdictionST",
    "1.3.6.1.4.1.311.60.2.1.3": "jurisdictionC", "1.2.643.3.131.1.1": "INN", "1.2.643.100.1": "OGRN",
    "1.2.643.100.3": "SNILS",
}  # fmt: skip
#: What would read as another attribute of the name: a value that has it is not told from one.
_AMBIGUOUS = re.compile(r"/[A-Za-z0-9.]+=")
#: Bytes of a subject that HTCondor looks at; it cuts off the rest, which would make one name of two.
_LONGEST = 1023


def subject_text(name: x509.Name) -> str:
    """A subject as map files have it, one ``/NAME=value`` behind the other, bytes beyond ASCII as ``\\xC3``.

    Source: HTCondor takes OpenSSL's ``X509_NAME_oneline``.

    :raises UnauthenticatedError: when a value holds what would read as another attribute (``CN=x/CN=root``),
        and for one that is too long to be a name.
    """
    parts = []
    for attribute in name:
        value = str(attribute.value)
        if _AMBIGUOUS.search(value):
            raise UnauthenticatedError(
                f"the certificate's subject is ambiguous: {value!r} in it reads as another attribute",
                hint="show a certificate whose names have no slash in front of NAME=",
            )
        text = "".join(chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02X}" for byte in value.encode())
        oid = attribute.oid.dotted_string
        parts.append(f"/{_NAMES.get(oid, oid)}={text}")
    subject = "".join(parts)
    if len(subject) > _LONGEST:
        raise UnauthenticatedError(f"the certificate's subject is longer than {_LONGEST} bytes: {subject[:80]}...")
    return subject


def identity(certificate: bytes, users: UserMap, now: float) -> Identity:
    """Who a certificate (PEM) stands for that a connection was made with, by the lines ``SSL`` of the map file.

    The identity ends with the certificate: a connection may outlive it.

    :raises UnauthenticatedError: when it is not valid at ``now``, has no subject, or maps to nobody.
    """
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate)
        subject = subject_text(found.subject)
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate cannot be read: {error}") from None
    expires = found.not_valid_after_utc.timestamp()
    if now >= expires:
        raise UnauthenticatedError(
            f"the certificate of {subject} has expired on {found.not_valid_after_utc:%Y-%m-%d}", hint="renew it"
        )
    if now < found.not_valid_before_utc.timestamp():
        raise UnauthenticatedError(f"the certificate of {subject} is not yet valid")
    if not subject:
        raise UnauthenticatedError("the certificate has no subject, so that no line of CERTIFICATE_MAPFILE maps it")
    user = users.user(CERTIFICATE_METHOD, subject)
    return Identity(user, frozenset(), CERTIFICATE_METHOD, expires=expires, subject=subject)

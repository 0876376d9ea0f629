"""X.509 proxy certificates of grid users: whose they are and how long they are valid, read from their files. Pure.

A proxy file has a certificate, its private key, and the certificates that lead to the user's own (PEM). Only what job
ads tell is read of them; nothing is verified.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import re
from datetime import UTC, datetime

from msgspec import Struct

from slotwise.errors import SlotwiseError

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]++)-----")
_END = re.compile(rb"-----END ([A-Z0-9 ]++)-----")
#: Most bytes of a proxy file, and certificates in it, that are looked at.
LARGEST = 1024 * 1024
_MOST_CERTIFICATES = 100
#: Object identifiers of names as OpenSSL abbreviates them.
_NAMES = {
    "2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
    "2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
    "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials", "2.5.4.46": "dnQualifier",
    "2.5.4.65": "pseudonym", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
}  # fmt: skip
_PROXY_INFO = "1.3.6.1.5.5.7.1.14"
_ALTERNATIVE_NAME = "2.5.29.17"
#: Tags of DER.
_SEQUENCE, _OID, _UTC_TIME, _TIME, _EXTENSIONS, _VERSION, _EMAIL = 0x30, 0x06, 0x17, 0x18, 0xA3, 0xA0, 0x81


class ProxyError(SlotwiseError):
    """A file is not an usable proxy."""

    code = "proxy"


class Proxy(Struct, frozen=True):
    """``subject``: the user's name (not the proxy's own). ``expires_at``: when the first of its certificates ends."""

    subject: str
    expires_at: int
    email: str = ""

    def attributes(self) -> dict[str, str | int]:
        """What the job's ad tells of it."""
        found: dict[str, str | int] = {"x509UserProxySubject": self.subject, "x509UserProxyExpiration": self.expires_at}
        return found | ({"x509UserProxyEmail": self.email} if self.email else {})


class _Certificate(Struct, frozen=True):
    subject: str
    ends_at: int
    email: str
    is_proxy: bool


def _blocks(content: bytes) -> list[tuple[bytes, bytes]]:
    """Names and contents of the blocks of a file, each to the first end of its name.

    Linear in the file's size: ends are looked for once, not from each beginning.
    """
    ends: dict[bytes, list[tuple[int, int]]] = {}
    for end in _END.finditer(content):
        ends.setdefault(end[1], []).append(end.span())
    blocks, at = [], 0
    while (begin := _BEGIN.search(content, at)) is not None:
        name, at = begin[1], begin.end()
        of_name = ends.get(name, [])
        place = bisect.bisect_left(of_name, (at, 0))
        if place < len(of_name):
            start, after = of_name[place]
            blocks.append((name, content[at:start]))
            at = after
        else:
            at -= len(b"-----")  # which may begin the next block
    return blocks


def parse(content: bytes) -> Proxy:
    """What a proxy file says.

    :raises ProxyError: when it is none.
    """
    blocks = _blocks(content)
    bodies = [body for name, body in blocks if name == b"CERTIFICATE"]
    if not bodies or not any(name.endswith(b"PRIVATE KEY") for name, _ in blocks):
        raise ProxyError("unable to read proxy file", hint="it has a certificate and its private key, in PEM")
    try:
        found = [_certificate(base64.b64decode(body, validate=False)) for body in bodies[:_MOST_CERTIFICATES]]
    except (ValueError, IndexError, binascii.Error):
        raise ProxyError("unable to read proxy file", hint="a certificate in it cannot be decoded") from None
    user = next((one for one in found if not one.is_proxy), None)
    if user is None:
        raise ProxyError("unable to extract identity name", hint="the user's own certificate is missing in the file")
    email = next((one.email for one in found[1:] if one.email), "")
    return Proxy(user.subject, min(one.ends_at for one in found), email)


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag and content of the element at a place, and where the next one begins."""
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        digits = size & 0x7F
        if not 1 <= digits <= 4:
            raise ValueError("length")
        size, start = int.from_bytes(data[start : start + digits], "big"), start + digits
    if start + size > len(data):
        raise ValueError("cut off")
    return tag, data[start : start + size], start + size


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        tag, content, at = _element(data, at)
        found.append((tag, content))
    return found


def _inside(data: bytes, tag: int = _SEQUENCE) -> bytes:
    found, content, _ = _element(data, 0)
    if found != tag:
        raise ValueError("tag")
    return content


def _certificate(der: bytes) -> _Certificate:
    fields = _elements(_elements(_inside(der))[0][1])
    if fields[0][0] == _VERSION:
        fields = fields[1:]
    _serial, _algorithm, _issuer, validity, subject, _key, *more = fields
    ends = _elements(validity[1])[1]
    extensions = {}
    for tag, content in more:
        if tag == _EXTENSIONS:
            for _, extension in _elements(_inside(content)):
                parts = _elements(extension)
                extensions[_oid(parts[0][1])] = parts[-1][1]
    return _Certificate(_name(subject[1]), _time(*ends), _email(extensions), _PROXY_INFO in extensions)


def _email(extensions: dict[str, bytes]) -> str:
    names = extensions.get(_ALTERNATIVE_NAME)
    texts = [content for tag, content in _elements(_inside(names)) if tag == _EMAIL] if names else []
    return texts[0].decode("ascii", "replace") if texts else ""


def _oid(content: bytes) -> str:
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _name(content: bytes) -> str:
    """A name in OpenSSL's one-line form: ``/DC=org/CN=Ann``."""
    text = ""
    for _, entries in _elements(content):
        for _, entry in _elements(entries):
            (_, oid), (_, value) = _elements(entry)[:2]
            name = _oid(oid)
            text += f"/{_NAMES.get(name, name)}={''.join(map(_shown, value))}"
    return text


def _shown(byte: int) -> str:
    if byte in b"/+":
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02X}"


def _time(tag: int, content: bytes) -> int:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _TIME:
        raise ValueError("time")
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())

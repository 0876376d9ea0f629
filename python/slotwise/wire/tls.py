"""TLS for pools that reach over the loopback: certificates from the configuration, with HTCondor's knob names.

==============================  =======================================================================
AUTH_SSL_SERVER_CERTFILE        the daemons' certificate (PEM, with intermediates)
AUTH_SSL_SERVER_KEYFILE         its private key
AUTH_SSL_SERVER_CAFILE, _CADIR  who may have signed certificates of clients
AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE  clients must show one, also those that have a token
AUTH_SSL_CLIENT_CAFILE, _CADIR  who may have signed certificates of daemons
AUTH_SSL_CLIENT_CERTFILE, AUTH_SSL_CLIENT_KEYFILE  what clients show
==============================  =======================================================================

Tokens say who calls, with or without TLS; TLS keeps them secret on the way and proves the daemon. A caller without a
token may prove itself by a certificate instead (:mod:`slotwise.wire.certificates`). gRPC cannot ask for one without
requiring it: so where certificates count and are not required of all, they have a port of their own.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import grpc
from msgspec.structs import replace

from slotwise.authorization.entries import words
from slotwise.authorization.policy import CERTIFICATE_METHOD, LEVELS
from slotwise.authorization.settings import authentication_methods
from slotwise.errors import ConfigError, UsageError
from slotwise.model.knobs import Knobs
from slotwise.wire.address import DaemonAddress
from slotwise.wire.contact import join, parse
from slotwise.wire.context import Context
from slotwise.wire.credential import places
from slotwise.wire.origin import origin_of

if TYPE_CHECKING:
    from slotwise.config import Config

_log = logging.getLogger(__name__)
#: Names of the files in a directory of authorities by which OpenSSL finds one.
_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def server_credentials(config: Knobs) -> grpc.ServerCredentials | None:
    """What the daemons show, or None when no certificate is configured.

    :raises ConfigError: when a file is missing or unreadable, only one of certificate and key is named, or the one is
        not of the other.
    """
    pair = _pair(config, "AUTH_SSL_SERVER")
    if pair is None:
        return None
    _require_match(config, "AUTH_SSL_SERVER", *pair)
    required = config.get_bool("AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE")
    authorities = authorities_of_callers(config) if required else None
    if required and authorities is None:
        raise ConfigError(
            "AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE needs AUTH_SSL_SERVER_CAFILE or AUTH_SSL_SERVER_CADIR",
            key="AUTH_SSL_SERVER_CAFILE",
        )
    return _renewable(config, pair, authorities, required)


def require_client_match(config: Knobs) -> None:
    """See that the key which callers show is that of their certificate.

    :raises ConfigError: when it is not, or a file is missing or unreadable.
    """
    if (pair := _pair(config, "AUTH_SSL_CLIENT")) is not None:
        _require_match(config, "AUTH_SSL_CLIENT", *pair)


def _require_match(config: Knobs, prefix: str, key: bytes, certificate: bytes) -> None:
    from slotwise.wire import authority

    files = {kind: config.get(f"{prefix}_{kind}FILE") for kind in ("KEY", "CERT")}
    try:
        authority.ends_at(certificate)
    except UsageError as error:
        name = f"{prefix}_CERTFILE"
        raise ConfigError(f"{name}: {files['CERT']}: {error.message}", hint="name a PEM file", key=name) from None
    if not authority.is_of(certificate, key):
        name = f"{prefix}_KEYFILE"
        raise ConfigError(
            f"{name}: {files['KEY']} is not the key of the certificate in {files['CERT']}",
            hint="name the key that the certificate was requested with",
            key=name,
        )


def require_encryption(config: Knobs, hosts: Iterable[str], *, encrypted: bool) -> None:
    """See that tokens do not go over a network for all to read.

    :param hosts: where daemons listen.
    :raises ConfigError: when others could listen to tokens on their way.
    """
    beyond = ", ".join(host for host in hosts if not is_loopback(host))
    if not encrypted and beyond and not config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"):
        raise ConfigError(
            f"SLOTWISE_LISTEN = {beyond} reaches beyond this machine without TLS",
            hint="set AUTH_SSL_SERVER_CERTFILE and AUTH_SSL_SERVER_KEYFILE, or SLOTWISE_ADDRESS_KEY = True",
            key="SLOTWISE_LISTEN",
        )


def server_files(config: Knobs) -> tuple[Path, Path] | None:
    """The files of the daemons' certificate and key, or None when none are configured.

    :raises ConfigError: when one is missing or unreadable, or only one of them is named.
    """
    if _pair(config, "AUTH_SSL_SERVER") is None:
        return None
    certificate, key = (Path(str(config.get(f"AUTH_SSL_SERVER_{which}FILE"))) for which in ("CERT", "KEY"))
    return certificate, key


def certificate_credentials(config: Knobs) -> grpc.ServerCredentials | None:
    """What daemons show at a port that requires a certificate of every caller; None without a certificate of theirs, or
    an authority for those of callers.

    :raises ConfigError: when a file is missing or unreadable.
    """
    pair, authorities = _pair(config, "AUTH_SSL_SERVER"), authorities_of_callers(config)
    return None if pair is None or authorities is None else _renewable(config, pair, authorities, True)


def _renewable(
    config: Knobs, pair: tuple[bytes, bytes], authorities: bytes | None, required: bool
) -> grpc.ServerCredentials:
    """What the daemons show: each connection that is made shows the certificate as the file has it then.

    For one address: gRPC binds no second one with it.
    """
    first = grpc.ssl_server_certificate_configuration([pair], authorities)
    return grpc.dynamic_ssl_server_credentials(first, _Renewed(config, pair, authorities), required)


class _Renewed:
    """Looks whether the files have a new certificate; called by gRPC for each connection.

    A daemon that has given up root may not be able to read the key again: then only a certificate for the same key can
    be taken, unless the daemons' account may read the file (its group's right, mode 0640).
    """

    def __init__(self, config: Knobs, pair: tuple[bytes, bytes], authorities: bytes | None) -> None:
        self._config = config
        self._path, self._key_path = (Path(str(config.get(f"AUTH_SSL_SERVER_{kind}FILE"))) for kind in ("CERT", "KEY"))
        self._key, self._certificate = pair
        self._authorities = authorities
        self._marks = self._look()

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_mark(self._path), _mark(self._key_path)]

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        """The new certificate; None: the former one holds on."""
        marks = self._look()
        if marks[0] is None or marks == self._marks:
            return None
        self._marks = marks
        try:
            fresh = self._path.read_bytes()
        except OSError as error:
            _log.warning("%s cannot be read, the former certificate holds on: %s", self._path, error.strerror)
            return None
        if fresh == self._certificate:
            return None
        from slotwise.wire import authority

        if not authority.is_of(fresh, self._key):
            key, why = self._fresh_key()
            if key is None or not authority.is_of(fresh, key):
                what = "%s has a certificate of another key%s: the former one holds on, to the next start at most"
                _log.warning(what, self._path, f" ({why})" if why else f" than {self._key_path}")
                return None
            self._key = key
        self._certificate = fresh
        _log.info("%s has a new certificate", self._path)
        return grpc.ssl_server_certificate_configuration([(self._key, fresh)], self._authorities)

    def _fresh_key(self) -> tuple[bytes | None, str]:
        """The key that its file has now, or why it cannot be had."""
        try:
            return _private_key(self._config, "AUTH_SSL_SERVER_KEYFILE"), ""
        except ConfigError as error:
            return None, error.message


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def certificates_count(config: Config) -> bool:
    """Whether callers without a token may prove themselves by a certificate: there is a map file, authorities are
    named, and SSL is among the authentication methods of a level.
    """
    if not config.get("CERTIFICATE_MAPFILE") or not _is_named(config, "AUTH_SSL_SERVER_CERTFILE"):
        return False
    if not any(_is_named(config, f"AUTH_SSL_SERVER_CA{kind}") for kind in ("FILE", "DIR")):
        return False
    return any(CERTIFICATE_METHOD in words(authentication_methods(config, level).value.upper()) for level in LEVELS)


def client_credentials(config: Knobs, *, shows: bool = True) -> grpc.ChannelCredentials | None:
    """What callers trust and show, or None when neither is configured.

    :param shows: whether the certificate is shown where a daemon requires one.
    :raises ConfigError: when a file is missing or unreadable.
    """
    authorities = _authorities(config, "AUTH_SSL_CLIENT")
    pair = _pair(config, "AUTH_SSL_CLIENT") if shows else None
    if authorities is None and pair is None:
        return None
    return grpc.ssl_channel_credentials(authorities, *(pair or ()))


def authorities_of_daemons(config: Knobs) -> bytes | None:
    """The authorities that may have signed certificates of daemons (PEM); None when none is named.

    :raises ConfigError: when a file is missing or unreadable.
    """
    return _authorities(config, "AUTH_SSL_CLIENT")


def authorities_of_callers(config: Knobs) -> bytes | None:
    """The authorities that may have signed what callers show (PEM); None when none is named.

    :raises ConfigError: when a file is missing or unreadable.
    """
    return _authorities(config, "AUTH_SSL_SERVER")


def own_certificate(config: Knobs) -> str:
    """The file of the certificate that this user has to show; empty without one, or with one whose key is another
    account's: a configuration for the whole host names the daemons'."""
    certificate, key = (config.get(f"AUTH_SSL_CLIENT_{kind}FILE") for kind in ("CERT", "KEY"))
    if not certificate or not (_is_named(config, "AUTH_SSL_CLIENT_CERTFILE")):
        return ""
    closed = key is not None and os.path.exists(key) and not os.access(key, os.R_OK, effective_ids=True)  # noqa: PTH110
    return "" if closed else certificate


def _is_named(config: Knobs, name: str) -> bool:
    return config.is_set(name) and bool(config.get(name))


def _pair(config: Knobs, prefix: str) -> tuple[bytes, bytes] | None:
    """A private key and its certificate, as gRPC takes them."""
    certificate = _file(config, f"{prefix}_CERTFILE")
    key = _private_key(config, f"{prefix}_KEYFILE")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, named = f"{prefix}_CERTFILE", f"{prefix}_KEYFILE"
        if certificate is not None:
            missing, named = named, missing
        hint = f"a certificate and its key go together: set {missing}"
        raise ConfigError(f"{named} is set, and {missing} is missing", hint=hint, key=named)
    if b"ENCRYPTED" in key:
        raise ConfigError(
            f"{prefix}_KEYFILE: the private key is encrypted, and nobody is asked for its password",
            hint=f"openssl pkey -in {config.get(f'{prefix}_KEYFILE')} -out plain.key; chmod 0600 plain.key",
            key=f"{prefix}_KEYFILE",
        )
    return key, certificate


def _authorities(config: Knobs, prefix: str) -> bytes | None:
    """The certificates of the authorities in CAFILE and CADIR; None when neither is named."""
    found = [text for text in (_file(config, f"{prefix}_CAFILE"),) if text is not None]
    name = f"{prefix}_CADIR"
    if _is_named(config, name):
        directory = Path(str(config.get(name)))
        try:
            files = sorted(path for path in directory.iterdir() if _HASHED.fullmatch(path.name))
            found += [path.read_bytes() for path in files]
        except OSError as error:
            raise ConfigError(f"{name}: cannot read {error.filename}: {error.strerror}", key=name) from None
        if not files:
            raise ConfigError(
                f"{name} = {directory} has no authority under a name that OpenSSL would look for",
                hint=f"openssl rehash {directory}",
                key=name,
            )
    return b"\n".join(found) or None


def audiences(config: Knobs, me: DaemonAddress, full_name: str, *, is_default: bool = False) -> set[str]:
    """The gRPC targets under which callers may address a daemon: its socket, and its port at each of its names.

    These are the name in FULL_HOSTNAME, those in its certificate (but no patterns of names), and where it listens.

    :param is_default: callers of the host's shared port who name no daemon mean this one.
    """
    bound, _, port = me.tcp.rpartition(":")
    certificate = _file(config, "AUTH_SSL_SERVER_CERTFILE")
    names = {full_name, bound, *(name for name in certificate_names(certificate) if "*" not in name)}
    if is_loopback(bound) or bound in ("0.0.0.0", "[::]", "*"):
        names |= {"localhost", "127.0.0.1"}
    found = {join(name.strip("[]"), int(port)) for name in names} | ({f"unix:{me.socket}"} if me.socket else set())
    if (contact := parse(me.reach)) is not None and (contact.sock or contact.key):
        called = [contact, *(replace(contact, host=name.strip("[]"), alias="") for name in (*names, contact.host))]
        found |= {each.audience for each in called}
        if is_default:
            found |= {replace(each, sock="").audience for each in called}
    return {each.lower() for each in found}


def certificate_names(certificate: bytes | None) -> set[str]:
    """The hosts that a certificate (PEM) is for: names, patterns of names (``*.example``), addresses."""
    if certificate is None:
        return set()
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return set()
    return {*names.get_values_for_type(x509.DNSName)} | {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach a server that listens at ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(context: Context) -> bool:
    """Whether nobody reads along on a call's connection: it is encrypted, or does not leave this machine."""
    peer = origin_of(context)
    if peer.startswith("unix:") or context.auth_context().get("transport_security_type") == [b"ssl"]:
        return True
    return is_loopback(unquote(peer.partition(":")[2]).rpartition(":")[0])


def carries_secrets(context: Context) -> bool:
    """Whether what is answered on a call's connection may be a token: it is encrypted, or a UNIX socket."""
    if origin_of(context).startswith("unix:") or places.cleartext:
        return True
    return bool(context.auth_context().get("transport_security_type") == [b"ssl"])


def _private_key(config: Knobs, name: str) -> bytes | None:
    """A private key, which its owner may write, its group read, as some distributions have it, and nobody else use."""
    path = config.get(name) if config.is_set(name) else None
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o027:
                raise ConfigError(
                    f"{name}: others may use the private key {path} (mode {mode & 0o777:04o})",
                    hint=f"chmod 0600 {path}, and make a new key if it is too late",
                    key=name,
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}", key=name) from None


def _file(config: Knobs, name: str) -> bytes | None:
    path = config.get(name) if config.is_set(name) else None
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}", key=name) from None

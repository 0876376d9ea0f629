"""What keeps the daemons of a configuration from being reached, or believed: a certificate of another host, or one that
has ended; a central manager whose name means nothing. ``slotwise config check`` asks before anything starts.
"""

from __future__ import annotations

import concurrent.futures
import ipaddress
import socket
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase

from slotwise.config import Config, Problem
from slotwise.errors import UsageError
from slotwise.wire import contact, tls
from slotwise.wire.address import configured_collector

#: How long a name service may take, in seconds.
_LOOK_UP_S = 5.0
#: A certificate that nothing renews and that ends so soon is worth a word, in seconds.
_SOON_S = 14 * 86400.0


def problems(config: Config, now: float) -> Iterator[Problem]:
    """All of them.

    :param now: epoch seconds.
    :raises ConfigError: when a file of the configuration cannot be read.
    """
    yield from _certificate(config, now)
    yield from _authorities(config)
    yield from _central_manager(config)


def _certificate(config: Config, now: float) -> Iterator[Problem]:
    from slotwise.wire import authority

    files = tls.server_files(config)
    if files is None:
        return
    path, key = files[0], "AUTH_SSL_SERVER_CERTFILE"
    text = path.read_bytes()

    def found(severity: str, code: str, message: str, hint: str) -> Problem:
        return Problem(severity, code, key, f"{key}: {message}", config.origin(key), hint)

    try:
        begins, ends = authority.begins_at(text), authority.ends_at(text)
    except UsageError:
        return  # it is refused where certificates are read
    host = str(config.get("FULL_HOSTNAME") or socket.gethostname())
    called = {host.lower(), str(config.get("TCP_FORWARDING_HOST") or host).lower()}
    names = tls.certificate_names(text)
    if not any(fnmatchcase(own, name.lower()) for own in called for name in names):
        message = f"{path} is a certificate of {', '.join(sorted(names)) or 'no host'}, and this host is {host}"
        hint = f"get one for {host}; with several names, those of its subject alternative names count"
        yield found("error", "config-foreign-certificate", message, hint)
    elif not _is_known(name := str(config.get("TCP_FORWARDING_HOST") or host)):
        # Daemons are called by the name that their certificate proves, also by those of their own host.
        message = f"daemons here are called by the name {name}, and this host finds no address for it"
        yield found("warning", "config-unknown-host", message, "add it to the name service or to /etc/hosts")
    if begins > now:
        day = time.strftime("%Y-%m-%d", time.gmtime(begins))
        yield found("error", "config-early-certificate", f"{path} counts from {day} on", "see that the clock is right")
    if ends < now:
        days = int((now - ends) / 86400)
        yield found("error", "config-ended-certificate", f"{path} ended {days} days ago", "renew it")
    elif ends - now < _SOON_S:
        days = int((ends - now) / 86400)
        yield found("warning", "config-ending-certificate", f"{path} ends in {days} days", "renew it")


def _authorities(config: Config) -> Iterator[Problem]:
    """Authorities in files that have none, and those that have not signed what daemons of this host show each other."""
    from slotwise.wire import authority

    files = tls.server_files(config)
    certificate = files[0].read_bytes() if files is not None else None
    for prefix, trusted in (
        ("AUTH_SSL_CLIENT", tls.authorities_of_daemons(config)),
        ("AUTH_SSL_SERVER", tls.authorities_of_callers(config)),
    ):
        key = f"{prefix}_CAFILE" if config.get(f"{prefix}_CAFILE") else f"{prefix}_CADIR"
        if trusted is None:
            continue
        place, origin = f"{key} = {config.get(key)}", config.origin(key)
        try:
            signed = certificate is None or authority.is_signed_by(certificate, trusted)
        except UsageError as error:
            hint = "name a PEM file with the certificates of authorities"
            yield Problem("error", "config-bad-authority", key, f"{place}: {error.message}", origin, hint)
            continue
        if not signed and prefix == "AUTH_SSL_CLIENT" and files is not None:
            message = f"{place}: none of its authorities has signed {files[0]}, the certificate of daemons here"
            hint = "add the authority of AUTH_SSL_SERVER_CERTFILE to it"
            yield Problem("error", "config-foreign-authority", key, message, origin, hint)


def _central_manager(config: Config) -> Iterator[Problem]:
    key = "COLLECTOR_HOST"
    for given in config.get_list(key):
        if not _is_place(given):
            hint = "write HOST or HOST:PORT, with a port from 1 to 65535"
            yield Problem("error", "config-bad-host", key, f"{key}: {given} is no address", config.origin(key), hint)
            return
    target = configured_collector(config)
    at = None if target is None else contact.parse(target)
    if at is None or at.broker or _is_known(at.host):
        return
    key = "COLLECTOR_HOST" if config.is_set("COLLECTOR_HOST") else "CONDOR_HOST"
    message = f"{key} names {at.host}, and this host finds no address for it"
    hint = "correct the name, or add it to the name service or to /etc/hosts"
    yield Problem("error", "config-unknown-host", key, message, config.origin(key), hint)


def _is_place(text: str) -> bool:
    """Whether this is a host, or an address with a port; what looks like a port and is none makes it neither."""
    if contact.parse(text) is not None or ":" not in text:
        return True
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _is_known(host: str) -> bool:
    """Whether the name service of this host finds an address; one that does not answer is not the name's fault."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    looked_up = pool.submit(socket.getaddrinfo, host, None)
    pool.shutdown(wait=False)
    try:
        looked_up.result(_LOOK_UP_S)
    except (socket.gaierror, UnicodeError):
        return False
    except TimeoutError:
        pass
    return True

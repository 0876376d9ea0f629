"""How a daemon is reached from other hosts: by a port of its own, by its host's shared port, by a broker.

Source: administrators' manual of HTCondor, networking; decision 21.
"""

from __future__ import annotations

import hashlib
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from slotwise.config import Config
from slotwise.daemon import interfaces
from slotwise.daemon.registry import PARTS_OF_SCHEDD
from slotwise.errors import ConfigError
from slotwise.home import PoolHome
from slotwise.model.knobs import Knobs
from slotwise.wire import contact, tls
from slotwise.wire.contact import Contact
from slotwise.wire.keys import SigningKey

#: Who is meant by a caller of the shared port that names no daemon: the first of these on the host.
_DEFAULTS = ("collector", "schedd", "startd", "negotiator", "master")
#: The daemon of that port, which has all callers but this daemon's own by it.
DAEMON = "shared_port"


class SharedPort(Struct, frozen=True):
    """A host's shared port. ``port``: 0 where nothing listens and a broker alone reaches the host; ``default``: the
    daemon that is meant where a caller names none; ``broker``: ``host:port``, empty without one."""

    port: int
    default: str
    broker: str = ""


def shared_port(config: Config) -> SharedPort | None:
    """The shared port of this host; None where each daemon has a port of its own, or none leaves the machine.

    :raises ConfigError: when CCB_ADDRESS or SHARED_PORT_PORT cannot be honoured.
    """
    broker = broker_of(config)
    beyond = any(not tls.is_loopback(host) for host in listen_hosts(config))
    encrypted = config.is_set("AUTH_SSL_SERVER_CERTFILE") and bool(config.get("AUTH_SSL_SERVER_CERTFILE"))
    # With a key in its address a host has a port for each daemon, but where a broker needs the shared one.
    encrypted = encrypted or (bool(broker) and config.get_bool("SLOTWISE_ADDRESS_KEY"))
    if broker and not (encrypted and config.get_bool("USE_SHARED_PORT")):
        raise ConfigError(
            "CCB_ADDRESS needs USE_SHARED_PORT = true, and AUTH_SSL_SERVER_CERTFILE and AUTH_SSL_SERVER_KEYFILE, or "
            "SLOTWISE_ADDRESS_KEY",
            hint="a broker passes on what is encrypted from end to end, to the shared port of this host",
            key="CCB_ADDRESS",
        )
    if not encrypted or not config.get_bool("USE_SHARED_PORT") or not (beyond or broker):
        return None
    port = config.get_int("SHARED_PORT_PORT")
    if not 0 <= port < 65536 or (port == 0 and not broker):
        raise ConfigError(
            f"SHARED_PORT_PORT = {port} is not a port that others could call",
            hint="name one, or with 0 a broker in CCB_ADDRESS",
            key="SHARED_PORT_PORT",
        )
    return SharedPort(port if beyond else 0, _default(config), broker)


def _default(config: Config) -> str:
    named = (config.get("SHARED_PORT_DEFAULT_ID") or "").strip().lower()
    if named:
        if not contact.SOCK.fullmatch(named):
            raise ConfigError(
                f"SHARED_PORT_DEFAULT_ID = {named} is not the name of a daemon",
                hint=f"one of {', '.join(_DEFAULTS)}",
                key="SHARED_PORT_DEFAULT_ID",
            )
        return named
    words = {word.strip().lower() for word in config.get_list("DAEMON_LIST") or ()} - {"master"} - PARTS_OF_SCHEDD
    here = (name for name in _DEFAULTS if name in words or not words)
    return next((name for name in here if not has_own_port(name, config)), "master")


def broker_of(config: Knobs) -> str:
    """``host:port`` of the broker that CCB_ADDRESS names (the first of a list); empty without one, or where it is this
    host itself.

    :raises ConfigError: when it is no address.
    """
    text = (config.get("CCB_ADDRESS") or "").replace(",", " ").strip()
    if not text:
        return ""
    first = text.split()[0].strip("<>").partition("?")[0]
    if (divided := contact.divide(first)) is None:
        if first.count(":") == 1:
            raise ConfigError(f"CCB_ADDRESS = {text} is not an address", hint="write host:port", key="CCB_ADDRESS")
        divided = first.strip("[]"), config.get_int("COLLECTOR_PORT")
    full_name = config.get("FULL_HOSTNAME") or socket.gethostname()
    here = {"localhost", "127.0.0.1", "::1", socket.gethostname(), full_name, full_name.partition(".")[0]}
    return "" if divided[0] in here else contact.join(*divided)


def broker_target(broker: str) -> str:
    """The gRPC target of the service that a host registers with: a part of the shared port there."""
    return f"{broker}?sock={DAEMON}"


def network_of(config: Knobs) -> str:
    """PRIVATE_NETWORK_NAME: the private network that this host is in."""
    return (config.get("PRIVATE_NETWORK_NAME") or "").strip()


def host_id(key: SigningKey) -> str:
    """The id of a host at its brokers, which follows from its key and is the same for good."""
    return id_of(host_secret(key))


def host_secret(key: SigningKey) -> str:
    """What a host shows a broker to be known by its id."""
    return hashlib.sha256(b"slotwise broker: " + key.pem().encode()).hexdigest()


def id_of(secret: str) -> str:
    """The id of the host that shows ``secret``."""
    return hashlib.sha256(secret.encode()).hexdigest()[:40]


def own_contact(full_name: str, config: Config, port: int) -> Contact:
    """The address that a daemon with a port of its own advertises."""
    return _named(Contact(full_name, port), full_name, config)


def _named(found: Contact, full_name: str, config: Config) -> Contact:
    """The address with the host that others call, and that inside of the host's private network."""
    seen = found
    forwarded = (config.get("TCP_FORWARDING_HOST") or "").strip().strip("[]")
    chosen = forwarded or interfaces.chosen(config, "NETWORK_INTERFACE")
    if chosen and chosen != full_name:
        found = replace(found, host=chosen, alias=full_name)
    inside = interfaces.chosen(config, "PRIVATE_NETWORK_INTERFACE")
    differs = inside or forwarded or found.broker
    if config.is_set("PRIVATE_NETWORK_NAME") and (network := network_of(config)) and differs and found.port:
        at = replace(seen, host=inside) if inside else seen
        found = replace(found, private_network=network, private_address=at.address)
    return found


class Place(Struct, frozen=True):
    """An address to listen on. ``v6only``: no IPv4 callers there; ``optional``: it may be missing."""

    host: str
    v6only: bool = False
    optional: bool = False


def listen_hosts(config: Config) -> list[str]:
    """The addresses that SLOTWISE_LISTEN names, ``*`` for all."""
    return [word.strip("[]") for word in config.get_text("SLOTWISE_LISTEN").replace(",", " ").split()]


def listen_places(config: Config) -> list[Place]:
    """Where daemons listen: SLOTWISE_LISTEN, of it the families that ENABLE_IPV4 and ENABLE_IPV6 allow.

    Where others may reach this host and BIND_ALL_INTERFACES is false: the address of NETWORK_INTERFACE alone.

    :raises ConfigError: when nothing is left.
    """
    hosts = listen_hosts(config)
    if any(not tls.is_loopback(host) for host in hosts) and not config.get_bool("BIND_ALL_INTERFACES"):
        hosts = [interfaces.chosen(config, "NETWORK_INTERFACE") or host for host in hosts]
    return places(hosts, _family(config, "ENABLE_IPV4"), _family(config, "ENABLE_IPV6"))


def places(hosts: Sequence[str], ipv4: bool | None, ipv6: bool | None) -> list[Place]:
    """Where to listen for callers of ``hosts``.

    :param ipv4: whether IPv4 is wanted; None: where the host has it.
    :raises ConfigError: when nothing is left.
    """
    found: list[Place] = []
    for host in dict.fromkeys(hosts):
        if host == "*":
            found += [Place("0.0.0.0", optional=ipv4 is None)] if ipv4 is not False else []
            found += [Place("::", v6only=True, optional=ipv6 is None)] if ipv6 is not False else []
        elif ":" in host:
            alone = ipv4 is False or host != "::" or "0.0.0.0" in hosts
            found += [Place(host, v6only=alone)] if ipv6 is not False else []
        elif ipv4 is not False or not _is_ipv4(host):
            found.append(Place(host))
    if not found:
        raise ConfigError(
            f"SLOTWISE_LISTEN = {', '.join(hosts)} names no address of a family that ENABLE_IPV4 and ENABLE_IPV6 allow",
            hint="SLOTWISE_LISTEN = * listens on all addresses",
            key="SLOTWISE_LISTEN",
        )
    return found


def _is_ipv4(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 4
    except ValueError:
        return False


def _family(config: Config, knob: str) -> bool | None:
    if config.get_text(knob).lower() == "auto":
        return None
    return config.get_bool(knob)


def has_own_port(name: str, config: Config) -> bool:
    """Whether a daemon listens on a port of its own although its host has a shared one."""
    if config.get(f"SLOTWISE_{name.upper()}_PORT") is not None:
        return True
    return name == "collector" and not config.get_bool("COLLECTOR_USES_SHARED_PORT")


def contact_of(name: str, full_name: str, config: Config, shared: SharedPort, host_id: str) -> Contact:
    """The address that a daemon behind the shared port advertises."""
    found = Contact(full_name, shared.port, sock=name, broker=shared.broker, broker_id=host_id if shared.broker else "")
    return _named(found, full_name, config)


def forward_socket(home: PoolHome, sock: str) -> Path:
    """The socket by which the shared port passes connections on to the daemon ``sock`` of this host."""
    return home.run / f"{sock}.shared"

"""Reads the authorization lists of one daemon from its configuration.

A list is ALLOW_<LEVEL>_<SUBSYS> if that is set, else ALLOW_<LEVEL>; ADVERTISE_* levels fall back to DAEMON, and all
levels to ALLOW_DEFAULT. The same holds for DENY_. Manual, "Authorization".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.authorization.entries import Entry, parse_entry, words
from slotwise.authorization.policy import CERTIFICATE_METHOD, LEVELS, Listing, Lists, Methods, Policy
from slotwise.errors import ConfigError

if TYPE_CHECKING:
    from slotwise.config import Config


def read(config: Config, subsystem: str) -> Policy:
    """The lists as written; host names in them have no addresses yet (:func:`host_names`, :func:`resolved`).

    :raises ConfigError: an entry cannot be decided by.
    """
    equal = config.find_bool("USE_POOL_USERNAME_EQUIVALENT")
    legacy = bool(config.find_bool("LEGACY_ALLOW_SEMANTICS"))

    def listing(kind: str, level: str) -> Listing | None:
        names = (kind + name for name in _knobs(level, subsystem, legacy=legacy))
        name = next((name for name in names if config.get(name)), None)
        return None if name is None else _listing(config, name, pool_names_equal=equal is not False)

    lists = {level: Lists(listing("ALLOW_", level), listing("DENY_", level)) for level in LEVELS}
    return Policy(lists, _without_certificates(config))


def _without_certificates(config: Config) -> dict[str, Methods]:
    """The levels whose configured authentication methods lack SSL."""
    found = {}
    for level in LEVELS:
        methods = authentication_methods(config, level)
        if CERTIFICATE_METHOD not in words(methods.value.upper()):
            found[level] = methods
    return found


def authentication_methods(config: Config, level: str) -> Methods:
    """The authentication methods of a level; ADVERTISE_* levels fall back to those of DAEMON, and all levels to
    SEC_DEFAULT_AUTHENTICATION_METHODS.
    """
    levels = [level, "DAEMON"] if level.startswith("ADVERTISE_") else [level]
    for each in levels:
        name = f"SEC_{each}_AUTHENTICATION_METHODS"
        if config.get(name):
            return Methods(name, config.get_str(name), str(config.origin(name) or ""))
    name = "SEC_DEFAULT_AUTHENTICATION_METHODS"
    return Methods(name, config.get_str(name), str(config.origin(name) or ""))


def _knobs(level: str, subsystem: str, *, legacy: bool) -> Iterator[str]:
    """The names, behind ALLOW_ or DENY_, of the knobs that may hold the list of a level, in order."""
    levels = [level]
    if level.startswith("ADVERTISE_"):
        levels.append("DAEMON")
    if legacy and "DAEMON" in levels:
        levels.append("WRITE")
    for each in [*levels, "DEFAULT"]:
        yield f"{each}_{subsystem}"
        yield each


def _listing(config: Config, name: str, *, pool_names_equal: bool) -> Listing:
    value = config.get_str(name).strip()
    origin = str(config.origin(name) or "")
    entries = []
    for text in words(value):
        if text.startswith("+"):
            raise ConfigError(
                f"{name}: the netgroup {text} cannot be asked about",
                hint="write the users and hosts themselves",
                origin=origin,
                key=name,
            )
        entry = parse_entry(text, pool_names_equal=pool_names_equal)
        if not entry.host.strip(".*") and "." in entry.host:
            raise ConfigError(
                f"{name}: {text} names no host, and would be every address",
                hint="write * for every host",
                origin=origin,
                key=name,
            )
        if entry.is_no_address and name.startswith("DENY_"):
            raise ConfigError(
                f"{name}: {text} is neither an address nor a network, and would keep nobody out",
                hint="write it like 10.1.2.3, 10.1.* or 10.1.0.0/16",
                origin=origin,
                key=name,
            )
        entries.append(entry)
    return Listing(config.entry_name(name) or name, value, tuple(entries), origin)


def host_names(policy: Policy) -> set[str]:
    """The host names in the lists, whose addresses have to be looked up."""
    return {name for _, entry in _entries(policy) if (name := entry.host_name) is not None}


def resolved(policy: Policy, addresses: Mapping[str, Sequence[str]]) -> Policy:
    """The policy with the addresses of its host names."""

    def at(entry: Entry) -> Entry:
        name = entry.host_name
        return entry if name is None else entry.at(addresses.get(name, ()))

    def with_addresses(listing: Listing | None) -> Listing | None:
        return None if listing is None else replace(listing, entries=tuple(at(entry) for entry in listing.entries))

    return replace(
        policy,
        lists={
            level: Lists(with_addresses(lists.allow), with_addresses(lists.deny))
            for level, lists in policy.lists.items()
        },
    )


def _entries(policy: Policy) -> Iterator[tuple[Listing, Entry]]:
    for lists in policy.lists.values():
        for listing in (lists.allow, lists.deny):
            if listing is not None:
                yield from ((listing, entry) for entry in listing.entries)

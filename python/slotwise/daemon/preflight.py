"""What a daemon would refuse at its start besides knobs: the account that it is to work as, the files that say who
callers are, and transforms of jobs. ``slotwise config check`` asks before anything starts.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping

from slotwise.authorization import settings
from slotwise.config import Config, Problem
from slotwise.config.daemon_account import KNOB, NAMES, DaemonAccount, daemon_account
from slotwise.daemon import preflight_network, privileges, reach
from slotwise.errors import ConfigError
from slotwise.home import PoolHome
from slotwise.transform import knob_of, read_job_transform, rule_names
from slotwise.wire import issuers, map_file, tls


def problems(config: Config, home: PoolHome, env: Mapping[str, str], now: float) -> Iterator[Problem]:
    """What daemons of this configuration would refuse. Files that this user may not read are left to those who may.

    :param now: epoch seconds, for certificates.
    """
    doubts: list[Problem] = []
    checks: tuple[Callable[[], object], ...] = (
        lambda: work_as(config, home, env),
        lambda: settings.read(config, str(config.subsystem or "MASTER")),
        lambda: map_file.read(config),
        lambda: issuers.read(config),
        lambda: tls.server_credentials(config),
        lambda: _require_encryption(config),
        lambda: doubts.extend(preflight_network.problems(config, now)),
        lambda: tls.client_credentials(config),
        lambda: tls.require_client_match(config),
    )
    told = set()
    for check in checks:
        try:
            check()
        except ConfigError as error:
            if isinstance(error.__context__, PermissionError) and os.geteuid() != 0:
                continue
            if error.message in told:
                continue
            told.add(error.message)
            origin = config.origin(error.key) if error.key else None
            yield Problem("error", "config-refused", error.key or "", error.message, origin, error.hint or "")
    yield from doubts
    yield from _transform_problems(config)
    yield from _wrapper_problems(config)


def _require_encryption(config: Config) -> None:
    hosts = [place.host for place in reach.listen_places(config)]
    has_certificate = config.is_set("AUTH_SSL_SERVER_CERTFILE") and bool(config.get("AUTH_SSL_SERVER_CERTFILE"))
    tls.require_encryption(config, hosts, encrypted=has_certificate or config.get_bool("SLOTWISE_ADDRESS_KEY"))


def _transform_problems(config: Config) -> Iterator[Problem]:
    """The job transforms with which no schedd starts."""
    for name in rule_names(config, "JOB_TRANSFORM_NAMES"):
        knob = knob_of(name)
        try:
            read_job_transform(config, name)
        except ConfigError as error:
            message = error.message if error.message.startswith(knob) else f"{knob}: {error.message}"
            yield Problem("error", "config-refused", knob, message, config.origin(knob), error.hint or "")


def _wrapper_problems(config: Config) -> Iterator[Problem]:
    """The job wrapper for which no job starts where there are jobs."""
    knob, daemons = "USER_JOB_WRAPPER", {name.upper() for name in config.get_list("DAEMON_LIST") or ()} - {"MASTER"}
    wrapper = (config.get(knob) or "").strip()
    if wrapper and (not daemons or "STARTD" in daemons) and not os.access(wrapper, os.X_OK):
        message = f"{knob}: {wrapper} cannot be run, and no job starts on this host"
        hint = "name a program that every account may run"
        yield Problem("warning", "config-no-program", knob, message, config.origin(knob), hint)


def work_as(config: Config, home: PoolHome, env: Mapping[str, str]) -> str:
    """The account that daemons which root starts do the pool's own work as, in words.

    :raises ConfigError: when CONDOR_IDS names none, or one that cannot be it.
    """
    found = daemon_account(config, env)
    if os.geteuid() == 0 and home.run.is_dir():
        usable, why = privileges.choose("master", home, config, env)
        if usable is None and why:
            return f"root: {why}"
    if found is None:
        return f"root: {KNOB} is not set, and there is no account {' or '.join(NAMES)}"
    return f"{described(found)}{f', as {KNOB} says' if found.named else ''}"


def described(account: DaemonAccount | None) -> str:
    """An account with its ids; None: the one that this process runs as."""
    if account is not None:
        return f"{account.name} (uid {account.uid}, gid {account.gid})"
    uid = os.geteuid()
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid}, gid {os.getegid()})"
    except KeyError:
        return f"uid {uid}, gid {os.getegid()}"

"""The accounts that jobs on a slot run as where the configuration names them (SLOT<N>_USER, SLOT<N>_<N>_USER)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from slotwise.accounts import Account, KnownAccounts
from slotwise.config.problem import WARNING, Problem
from slotwise.config.view import Config

FindAccount = Callable[[str], Account | None]
#: Those of this host.
_known = KnownAccounts()


def slot_users(config: Config) -> Iterator[tuple[str, str, str]]:
    """Each as the knob, the slot without host (``slot1``, ``slot1_2``), and the account without domain."""
    for knob, slot in (*config.members("SLOT<N>_USER"), *config.members("SLOT<N>_<N>_USER")):
        if account := config.get_str(knob).strip():
            yield knob, f"slot{slot}", account.partition("@")[0]


def fault_of(name: str, find: FindAccount) -> str:
    """Why no job runs as the account, in words; "" when jobs may.

    :raises OSError: when accounts cannot be looked up.
    """
    account = find(name)
    if account is None:
        return f"there is no account {name}; jobs that need it do not start"
    return f"{name} is root, as whom no job runs" if account.uid == 0 else ""


def problems(config: Config, *, is_root: bool | None = None, find: FindAccount = _known.named) -> Iterator[Problem]:
    """The accounts of slots that no job can run as on this host. They count where the daemons are root alone."""
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return
    for knob, _, name in slot_users(config):
        try:
            fault = fault_of(name, find)
        except OSError:
            continue  # the starter tells of it, which needs the account
        if fault:
            hint = "name an account of this host"
            yield Problem(WARNING, "config-slot-user", knob, f"{knob} = {name}: {fault}", config.origin(knob), hint)

"""The account that a job runs as. Manual, "User Accounts in HTCondor on Unix Platforms". Never root.

Order, when the daemons are root: the owner (STARTER_ALLOW_RUNAS_OWNER, same UID_DOMAIN, the account exists, its uid is
not below SLOTWISE_MIN_UID), else the slot's user (SLOT<N>_USER), else ``nobody``. Without root: as whom the starter
runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from slotwise.accounts import Account, KnownAccounts
from slotwise.config.slot_accounts import fault_of
from slotwise.errors import HostError
from slotwise.execution.job_view import JobView, SlotView
from slotwise.execution.keeper_spec import Identity
from slotwise.model.ownership import LocalDomains

FindAccount = Callable[[str], Account | None]


class UserRules(Struct, frozen=True):
    """Knobs about accounts. ``slot_users``: SLOT<N>_USER by slot name without host (``slot1``, ``slot1_2``)."""

    domains: LocalDomains = field(default_factory=lambda: LocalDomains(""))
    slot_users: Mapping[str, str] | None = None
    dedicated: str = ""
    #: Owners with a lower uid do not run jobs as themselves.
    least_uid: int = 1000


#: Those of this host.
_known = KnownAccounts()


def choose(
    job: JobView,
    slot: SlotView,
    rules: UserRules,
    *,
    owner_domain: str,
    is_root: bool,
    allow_owner: bool = True,
    find: FindAccount = _known.named,
) -> Identity:
    """The account that ``job`` runs as on ``slot``.

    :param allow_owner: what STARTER_ALLOW_RUNAS_OWNER says of this job.
    :raises HostError: when no account that is not root can be had.
    :raises OSError: when accounts cannot be looked up.
    """
    if not is_root:
        return Identity(home=str(Path.home()))
    if allow_owner and _may_run_as_owner(job, rules, owner_domain):
        owner = find(job.owner)
        if owner is not None and owner.uid >= max(1, rules.least_uid):
            return _identity(owner)
    name = _slot_user(slot.name, rules)
    account = find(name)
    if account is None:
        raise HostError(f"there is no account {name!r} for jobs on {slot.name}", hint="set SLOT<N>_USER")
    if account.uid == 0:
        raise HostError(f"jobs on {slot.name} would run as root", hint="set SLOT<N>_USER to another account")
    return _identity(account)


def account_problems(rules: UserRules, *, is_root: bool, find: FindAccount = _known.named) -> list[str]:
    """The knobs about accounts that cannot be honored on this host, in words."""
    found = []
    for slot, name in sorted((rules.slot_users or {}).items()) if is_root else ():
        if fault := fault_of(name, find):
            found.append(f"{slot.upper()}_USER: {fault}")
    try:
        re.compile(rules.dedicated)
    except re.error as error:
        found.append(f"DEDICATED_EXECUTE_ACCOUNT_REGEXP is not a regular expression ({error}): no account is dedicated")
    return found


def is_dedicated(identity: Identity, rules: UserRules) -> bool:
    """True when the account serves this slot only, so that all its processes are the job's
    (DEDICATED_EXECUTE_ACCOUNT_REGEXP)."""
    if not rules.dedicated or not identity.name:
        return False
    try:
        return re.fullmatch(rules.dedicated, identity.name, re.IGNORECASE) is not None
    except re.error:
        return False


def _may_run_as_owner(job: JobView, rules: UserRules, owner_domain: str) -> bool:
    if job.run_as_owner is False or not job.owner:
        return False
    return rules.domains.has(owner_domain)


def _slot_user(slot_name: str, rules: UserRules) -> str:
    users = rules.slot_users or {}
    name = slot_name.partition("@")[0].lower()
    return users.get(name) or users.get(name.partition("_")[0]) or "nobody"


def _identity(account: Account) -> Identity:
    return Identity(uid=account.uid, gid=account.gid, groups=account.other_groups, name=account.name, home=account.home)


class TrackingGroups:
    """Supplementary groups lent to one family each (USE_GID_PROCESS_TRACKING, MIN_TRACKING_GID to MAX_TRACKING_GID)."""

    def __init__(self, first: int, last: int) -> None:
        self._free = list(range(last, first - 1, -1)) if 0 < first <= last else []

    def lend(self) -> int | None:
        """A free group; None when all are lent (or tracking is off)."""
        return self._free.pop() if self._free else None

    def take(self, group: int) -> None:
        """Mark a group as lent: a run from before a restart has it."""
        if group in self._free:
            self._free.remove(group)

    def give_back(self, group: int | None) -> None:
        """Return a tracking GID to the pool."""
        if group is not None and group not in self._free:
            self._free.append(group)


def with_slot_user(rules: UserRules, slot_name: str, account: str) -> UserRules:
    """The rules with the account that the startd names for a slot."""
    name = slot_name.partition("@")[0].lower()
    return replace(rules, slot_users={**(rules.slot_users or {}), name: account.partition("@")[0]})


def with_tracking(identity: Identity, group: int | None, rules: UserRules) -> Identity:
    """The identity with what distinguishes its processes from all others."""
    return replace(identity, tracking_gid=group, dedicated=is_dedicated(identity, rules))


def to_json(identity: Identity) -> dict[str, object]:
    """As the run record keeps it."""
    return asdict(identity)


def from_json(kept: object) -> Identity:
    """What :func:`to_json` gave.

    :raises ValueError: when it is nothing of the kind. No account is not the starter's own, and under root a run has
        one that is not root, also a run that was begun when the starter was an ordinary user's.
    """
    if not isinstance(kept, dict) or "uid" not in kept or (os.geteuid() == 0 and not kept["uid"]):
        raise ValueError(f"{kept!r} names no account")
    return Identity(**{**kept, "groups": tuple(kept.get("groups", ()))})

"""What a hook that fetches work prints, read as a job: the ad, what it lacks, and whose it is. Pure.

Source: manual, "Job Hooks That Fetch Work"; HTCondor's startd takes ``Name = expression`` lines, and none of them when
one cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.evaluate import Value, attribute
from slotwise.errors import AdSyntaxError, UsageError
from slotwise.model.ownership import LocalDomains, domain_of, owner_of

#: Most bytes of an ad that is taken from a hook; what is longer is not a job.
LONGEST = 1 << 20

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: JobUniverse: vanilla, and local, which HTCondor runs without a shadow as well.
_UNIVERSES = (5, 12)
#: What a static slot takes a job to ask for that does not say, as in HTCondor.
_LEAST_REQUESTS = {"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1}


def read(output: bytes) -> ClassAd | None:
    """The ad that a hook printed; None when it printed nothing: there is no work.

    :raises UsageError: when the output is not an ad, or too long.
    """
    if len(output) > LONGEST:
        raise UsageError(f"it printed more than {LONGEST >> 10} KiB")
    found: dict[str, Value] = {}
    for number, line in enumerate(output.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        name, equals, text = line.partition("=")
        if not equals or _NAME.fullmatch(name.strip()) is None:
            raise UsageError(f"line {number} of its output is not an attribute: {_shown(line)}")
        try:
            found[name.strip()] = ExprTree(text.strip(), old=True)
        except (AdSyntaxError, ValueError) as error:
            raise UsageError(f"line {number} of its output is not an attribute ({error}): {_shown(line)}") from None
    return ClassAd(found) if found else None


def _shown(line: str) -> str:
    """The beginning of a line for the log, which escapes what would break one."""
    text = line.strip()
    return text if len(text) <= 80 else f"{text[:80]} ..."


def completed(ad: ClassAd, keyword: str, *, static: bool, now: float) -> ClassAd:
    """The ad with what HTCondor's startd and starter take fetched work to say: the hooks' keyword, job 1.0, vanilla
    universe; its files are where they are.

    :param static: the slot gives the job all that it has, so that the job need not say what it wants.
    """
    wanted: Mapping[str, Value] = {
        "ClusterId": 1, "ProcId": 0, "JobUniverse": 5, "HookKeyword": keyword, **(_LEAST_REQUESTS if static else {}),
    }  # fmt: skip
    job = ClassAd({})
    job.update(ad)
    job.update({name: value for name, value in wanted.items() if attribute(ad, name, now=now) is None})
    job.update({"MyType": "Job", "ShouldTransferFiles": "NO"})
    return job


def unfit(ad: ClassAd, *, now: float) -> str:
    """Why work can be run by no slot; empty when it can."""
    cmd = attribute(ad, "Cmd", now=now)
    if not isinstance(cmd, str) or not cmd:
        return "the fetched ad names no program (Cmd)"
    universe = attribute(ad, "JobUniverse", now=now)
    if universe not in _UNIVERSES:
        return f"fetched work runs in the vanilla universe only, not in JobUniverse {universe}"
    for name in ("ClusterId", "ProcId"):
        value = attribute(ad, name, now=now)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            return f"{name} of the fetched ad is not a number of a job"
    return ""


def owner(ad: ClassAd, domains: LocalDomains, otherwise: str, *, now: float) -> str:
    """Whose the work is (``user@domain``): OsUser of the ad, else User, as in HTCondor, else Owner, as the manual says.
    A name without a domain is of this host's.

    :param otherwise: the account when the ad names no user; empty where there must be one.
    :raises UsageError: when no user is named where one must be.
    """
    for name in ("OsUser", "User", "Owner"):
        value = attribute(ad, name, now=now)
        if isinstance(value, str) and value:
            if not owner_of(value) or not domains.named(value).isprintable():
                raise UsageError(f"{name} of the fetched ad is not a user")
            return domains.named(value) if domain_of(value) else f"{owner_of(value)}@{domains.own}"
    if not otherwise:
        raise UsageError("the fetched ad does not say whose work it is (Owner), which it must on a host of root's")
    return f"{otherwise}@{domains.own}"

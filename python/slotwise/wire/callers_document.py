"""Writes the reference page of who may call what, from the table that the servers decide by.

``python -m slotwise.wire.callers_document DIRECTORY`` writes ``callers.md`` there.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

from slotwise.authorization.parts import PARTS_OF_NEGOTIATOR
from slotwise.wire import gen
from slotwise.wire.keys import RUN, STARTER
from slotwise.wire.security import ADVERTISE_LEVELS, OPEN_METHODS, required_levels

_ABOUT = """\
# Who may call what

Generated from the table that the servers decide by, with `python -m slotwise.wire.callers_document docs/reference`; do
not edit. A call needs one of the levels in its row; [the guide](../guides/security.md) says how callers prove who they
are, what gives them levels and which level includes which, and [the threat model](../concepts/threat-model.md) what
each kind of caller can do at most. Calls of methods that are not here need ADMINISTRATOR.

Two kinds of callers are known by a key of their own and not by a level, since lists may give levels to whole hosts:

- **the run**: the starter of one run of a job, by a token for that run alone that the schedd signed when it started it,
  and that no other schedd accepts;
- **the startd of the same home**: by the key in `run/starter.pem`, which the starter makes when it begins.
"""
_OWN_JOBS = "jobs of the caller alone, unless ADMINISTRATOR or a superuser of the queue"
_OWN_CREDENTIALS = "credentials of the caller alone, but for CRED_SUPER_USERS"
_FROM_HOST = "names of the caller's own host alone, where the token is a host's"
#: What a method sees to besides the level.
FURTHER: dict[str, str] = {
    "Broker/Register": "a host is known by a secret of its own: nobody registers as another",
    "Collector/Advertise": f"the level of the kind of ad (below); {_FROM_HOST}",
    "Collector/Invalidate": f"the level of the kind of ad (below); {_FROM_HOST}",
    "Collector/Query": "no private attributes, claim ids among them, whoever asks",
    "Collector/Subscribe": "may have private attributes: the negotiator's mirror of the slots",
    "Daemon/ConfigValues": "no secret belongs in a knob",
    "Daemon/FetchLog": "files of the log directory by their names alone",
    "Daemon/SetConfig": "SETTABLE_ATTRS_LEVEL of a level that the caller has; off by default",
    "Negotiator/Accounting": "a host's master names the user of that host who asks",
    "Negotiator/Analyze": "bounded steps; a host's master names the user of that host who asks",
    "Negotiator/LastCycle": "a host's master names the user of that host who asks",
    "Nodes/Authority": "the authority's certificate, which is public",
    "Nodes/Collect": "the code and key of the request that it collects for",
    "Nodes/Enroll": "a request that waits for an administrator, or a join token; bounded by address",
    "Nodes/Leave": "a proof with the host's own key; that host alone",
    "Nodes/Renew": "a proof with the host's own key; that host alone",
    "Schedd/Act": _OWN_JOBS,
    "Schedd/CheckCredentials": "credentials of the caller alone",
    "Schedd/DeleteCredential": _OWN_CREDENTIALS,
    "Schedd/Edit": f"{_OWN_JOBS}; attributes that decide whose a job is are refused",
    "Schedd/FetchCredential": "the token of the caller's own, over TLS or a UNIX socket; never a refresh token",
    "Schedd/FetchEvicted": _OWN_JOBS,
    "Schedd/FetchSandboxes": _OWN_JOBS,
    "Schedd/History": "environments and arguments of jobs are for readers to see, as in HTCondor",
    "Schedd/Query": "environments and arguments of jobs are for readers to see, as in HTCondor",
    "Schedd/QueryCredentials": f"{_OWN_CREDENTIALS}; names and times",
    "Schedd/ReserveClusters": "10,000 reserved ids of a user",
    "Schedd/RunNow": _OWN_JOBS,
    "Schedd/Shadow": "the run of its token alone",
    "Schedd/ShowDag": f"{_OWN_JOBS}; the DAG's files are read with its owner's rights",
    "Schedd/Spool": _OWN_JOBS,
    "Schedd/StoreCredential": f"{_OWN_CREDENTIALS}; over TLS or a UNIX socket; bounded size and number",
    "Schedd/Submit": "the owner is the caller; limits of jobs and bytes of a user",
    "Schedd/SubmitMany": "the owner is the caller; limits of jobs and bytes of a user",
    "Schedd/SubmitOne": "the owner is the caller; limits of jobs and bytes of a user",
    "Schedd/Visit": _OWN_JOBS,
    "Startd/Claims": "each claim by its id, which only the negotiator and the matched schedd are told",
    "Starter/Jobs": "accounts of jobs are never root's",
    "Tokens/Collect": "the secret of the request that it collects for",
    "Tokens/Fetch": "over the host's own socket or TLS; for the caller, with levels of the caller's; not for daemons",
    "Tokens/Request": "a request that waits for an administrator; bounded by account and address",
    "Tokens/Sync": "the pool's public keys and revocations; a host's own token is renewed for that host's key alone",
}


def methods() -> Iterator[str]:
    """All methods of all services (``Schedd/Act``), in the order of the files."""
    for found in pkgutil.iter_modules(gen.__path__):
        if found.name.endswith("_pb2"):
            file = importlib.import_module(f"{gen.__name__}.{found.name}").DESCRIPTOR
            for service in file.services_by_name.values():
                yield from (f"{service.name}/{method.name}" for method in service.methods)


def _who(name: str) -> str:
    if f"/slotwise.v1.{name}" in OPEN_METHODS:
        return "anybody, without a proof"
    levels = required_levels(f"/slotwise.v1.{name}")
    if levels == (RUN,):
        return "the run"
    if levels == (STARTER,):
        return "the startd of the same home"
    return "any level" if name == "Daemon/SetConfig" else ", ".join(levels)


def callers_page() -> str:
    """The page of all methods."""
    lines = [_ABOUT.rstrip()]
    service = ""
    for name in methods():
        if name.partition("/")[0] != service:
            service = name.partition("/")[0]
            lines += [f"\n## {service}\n", "| Method | Who | What else is seen to |", "| --- | --- | --- |"]
        lines.append(f"| {name.partition('/')[2]} | {_who(name)} | {FURTHER.get(name, '')} |")
    lines += ["\n## Kinds of ads\n", "| Ads of | To advertise or invalidate them |", "| --- | --- |"]
    lines += [f"| {kind} | {', '.join(levels)} |" for kind, levels in ADVERTISE_LEVELS.items()]
    lines += ["| any other kind | DAEMON |", "", f"{' and '.join(PARTS_OF_NEGOTIATOR)} are parts of NEGOTIATOR."]
    return "\n".join(lines) + "\n"


def write(directory: Path) -> None:
    """Write the page."""
    (directory / "callers.md").write_text(callers_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

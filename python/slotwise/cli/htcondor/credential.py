"""``htcondor credential``: credentials that the access point keeps for one's jobs."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.classad import quote
from slotwise.cli.htcondor.verb import Call, Noun, Verb
from slotwise.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_KINDS = ("password", "kerberos", "oauth2")


def _only_oauth2(options: Namespace) -> None:
    """:raises UsageError: for a kind that is not kept."""
    if options.type != "oauth2":
        raise UsageError(
            f"credentials of type {options.type} are not kept", hint="oauth2 is for tokens of services that jobs use"
        )


def _add(options: Namespace, call: Call) -> None:
    _only_oauth2(options)
    place = Path(call.inv.path(options.credential_file))
    service, handle = options.service, options.handle
    if service is None and handle is None:
        service, _, handle = place.name.partition("_")
    with call.schedd() as schedd:
        done = schedd.store_credential(service or "", place.read_bytes(), handle=handle or "")
    if done.note:
        call.error(f"WARNING: {done.note}")


def _get(options: Namespace, call: Call) -> None:
    _only_oauth2(options)
    with call.schedd() as schedd:
        token = schedd.fetch_credential(options.service or "", handle=options.handle or "")
    call.inv.out(token.decode("utf-8", "replace"))


def _remove(options: Namespace, call: Call) -> None:
    _only_oauth2(options)
    if not options.service:
        raise UsageError("no service is named", hint="--service SERVICE; `condor_store_cred delete-oauth` removes all")
    with call.schedd() as schedd:
        schedd.delete_credential(options.service, handle=options.handle or "")


def _list(options: Namespace, call: Call) -> None:
    say = call.inv.out
    say(">> no Windows password found")
    say(">> no Kerberos credential found")
    with call.schedd() as schedd:
        try:
            found = schedd.credentials()
        except NotFoundError:
            say(">> no OAuth credentials found")
            return
        constraint = f"User == {quote(found.user)} && OAuthServicesNeeded =!= undefined"
        ads = schedd.query(constraint, ["ClusterId", "ProcId", "OAuthServicesNeeded"])
    jobs = _by_credential((ad.get("OAuthServicesNeeded"), ad.get("ClusterId"), ad.get("ProcId")) for ad in ads)
    rows = [(("", name), at, jobs.get(name)) for name, at in _latest(found.files).items()]
    say(f">> Found OAuth2 credentials for '{found.user}':")
    _table(rows, call, with_users=False)


def _list_all(options: Namespace, call: Call) -> None:
    """As HTCondor's: it looks into the access point's directory itself, and so is for its administrator."""
    say, place = call.inv.out, call.inv.knobs().get("SEC_CREDENTIAL_DIRECTORY_OAUTH")
    if not place:
        return
    found: dict[tuple[str, str], float] = {}
    try:
        for user in sorted(Path(place).iterdir()):
            if user.is_dir():
                files = {path.name: path.stat().st_mtime for path in user.iterdir()}
                found |= {(user.name, name): at for name, at in _latest(files).items()}
    except PermissionError:
        say(
            "This command is meant to be run by the access point administrator.  "
            "(You don't have permission to read the credentials directory.)"
        )
        return
    if not found:
        say(">> no OAuth credentials found")
        return
    jobs: dict[str, dict[str, dict[int, list[int]]]] = {}
    with call.schedd() as schedd:
        ads = schedd.query("OAuthServicesNeeded =!= undefined", ["Owner", "ClusterId", "ProcId", "OAuthServicesNeeded"])
    for owner in {str(ad.get("Owner")) for ad in ads}:
        jobs[owner] = _by_credential(
            (ad.get("OAuthServicesNeeded"), ad.get("ClusterId"), ad.get("ProcId"))
            for ad in ads
            if ad.get("Owner") == owner
        )
    say(">> Found the following OAuth2 credentials:")
    _table([(key, at, jobs.get(key[0], {}).get(key[1])) for key, at in found.items()], call, with_users=True)


def _latest(files: Mapping[str, float]) -> dict[str, float]:
    """The credentials by name, each with the time of its token, or of what that is made with where there is none."""
    found: dict[str, float] = {}
    for ending in (".top", ".use"):
        found |= {name.removesuffix(ending): at for name, at in files.items() if name.endswith(ending)}
    return dict(sorted(found.items()))


def _by_credential(jobs: Iterable[tuple[object, object, object]]) -> dict[str, dict[int, list[int]]]:
    found: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for needed, cluster, proc in jobs:
        if isinstance(needed, str) and isinstance(cluster, int) and isinstance(proc, int):
            for name in needed.split(","):
                found[name.replace("*", "_")][cluster].append(proc)
    return found


def compact(jobs: Mapping[int, Iterable[int]] | None) -> str:
    """Jobs in few words: ``12.0; 13.[0-4],7``."""
    said = []
    for cluster, procs in sorted((jobs or {}).items()):
        ranges: list[list[int]] = []
        for proc in sorted(procs):
            if ranges and proc == ranges[-1][-1] + 1:
                ranges[-1] = [ranges[-1][0], proc]
            else:
                ranges.append([proc])
        words = []
        for one in ranges:
            wide = len(one) == 2 and (len(ranges) > 1 or one[1] > one[0] + 1)
            words += [f"[{one[0]}-{one[1]}]"] if wide else [str(proc) for proc in one]
        said.append(f"{cluster}.{','.join(words)}")
    return "; ".join(said)


def _table(
    rows: Sequence[tuple[tuple[str, str], float, Mapping[int, Iterable[int]] | None]], call: Call, *, with_users: bool
) -> None:
    wide = max(4, *(len(name) + 4 for (_, name), _, _ in rows))
    first = max(4, *(len(user) for (user, _), _, _ in rows))
    lead = f"{'User':<{first}}  " if with_users else ""
    call.inv.out(f"   {lead}{'Service':<18}  {'Handle':<18}  {'Last Refreshed':>19}  {'File':<{wide}}  Jobs")
    for (user, name), at, jobs in rows:
        service, _, handle = name.partition("_")
        lead = f"{user:<{first}}  " if with_users else ""
        when = str(datetime.datetime.fromtimestamp(int(at)))
        call.inv.out(f"   {lead}{service:<18}  {handle:<18}  {when:>19}  {name + '.use':<{wide}}  {compact(jobs)}")


def _with_type(parser: ArgumentParser) -> None:
    parser.add_argument("type", choices=_KINDS, help="The credential type: password, kerberos, or oauth2")


def _with_service(parser: ArgumentParser) -> None:
    parser.add_argument("--service", help="(OAuth2) Service name, if not from the file")
    parser.add_argument("--handle", help="(OAuth2) Handle name, if not from the file")


def _for_one(parser: ArgumentParser) -> None:
    _with_type(parser)
    _with_service(parser)


def _for_new(parser: ArgumentParser) -> None:
    _with_type(parser)
    parser.add_argument("credential_file", metavar="credential-file", help="Path to a file storing the credential")
    _with_service(parser)


NOUN = Noun(
    "Operations on credentials",
    {
        "list": Verb("One's credentials, and the jobs that use them", _list),
        "add": Verb("Store a credential", _add, _for_new),
        "remove": Verb("Remove a credential", _remove, _for_one),
        "listall": Verb("The credentials of all users, for the administrator", _list_all),
        "get": Verb("Print the token that jobs get", _get, _for_one),
    },
)

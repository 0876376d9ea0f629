"""``htcondor server``, ``ap``, ``ep`` and ``cm``: how daemons do, of this host and of the pool; slots, claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.classad import ClassAd, quote
from slotwise.classad.values import number, whole
from slotwise.cli.htcondor import health
from slotwise.cli.htcondor.verb import Call, Noun, Verb
from slotwise.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

#: MyType of the ads that daemons send of themselves.
_OWN_ADS = {
    "MASTER": "DaemonMaster",
    "COLLECTOR": "Collector",
    "NEGOTIATOR": "Negotiator",
    "SCHEDD": "Scheduler",
    "STARTD": "StartDaemon",
}
#: Daemons that HTCondor's hosts have none of: shown when they do not do well.
_OURS_ALONE = ("STARTER", "FRONT")


def _text(ad: ClassAd, name: str, otherwise: str = "") -> str:
    value = ad.eval(name)
    return value if isinstance(value, str) else otherwise


def _server_status(options: Namespace, call: Call) -> None:
    from slotwise.cli.pool.who import daemons_here, readiness

    daemons = daemons_here(call.inv)
    ready = readiness(daemons, True)
    daemons = [
        one for one in daemons if one.name.upper() not in _OURS_ALONE or _text(ready, one.name.upper()) != "Alive"
    ]
    machine = call.inv.knobs().get("FULL_HOSTNAME") or ""
    with call.collector() as collector:
        found = collector.query("any", f"Machine == {quote(machine)} && SlotType is undefined")
    scores = {_text(ad, "MyType"): health.points(ad) for ad in found}
    names = [one.name.upper() for one in daemons]
    # A daemon without an ad of its own does as well as it lives.
    alive = {name: _text(ready, name) for name in names}
    points = {
        name: scores.get(_OWN_ADS.get(name, ""), health.BEST if alive[name] == "Alive" else 0.0) for name in names
    }
    width = max(len(name) for name in names)
    state = max(len(text) for text in alive.values()) + 2
    call.info(f"{'Daemon':^{width}}    PID  {'Status':^{state}} Health")
    for one, name in zip(daemons, names, strict=True):
        pid = str(one.pid) if one.pid else "-----"
        call.info(f"{name:<{width}}  {pid:>5} {alive[name]:^{state}} {health.word(points[name], 1)}")
    call.info(f"\nOverall HTCondor Health: {health.word(sum(points.values()), len(names))}\n")


class _Host(Struct):
    """The daemons of a kind on one host."""

    points: float = 0.0
    count: int = 0
    duty: float = 0.0

    def add(self, ad: ClassAd) -> None:
        self.points += health.points(ad)
        self.count += 1
        self.duty = number(ad.eval("RecentDaemonCoreDutyCycle"))


def _by_host(found: list[ClassAd]) -> dict[str, _Host]:
    hosts: dict[str, _Host] = {}
    for ad in found:
        hosts.setdefault(_text(ad, "Machine"), _Host()).add(ad)
    return hosts


def _ap_status(options: Namespace, call: Call) -> None:
    wanted = list(options.hostname)
    constraint = " || ".join(f"Machine == {quote(host)}" for host in wanted)
    with call.collector() as collector:
        hosts = _by_host(collector.query("schedd", constraint))
    if not hosts:
        raise NotFoundError(
            "Failed to locate specified Access Point(s)" if wanted else "Failed to locate any Access Point information"
        )
    width = max(map(len, hosts))
    call.info(f"{'Access Point':^{width}}   Health   DutyCycle")
    for host, one in hosts.items():
        share = one.duty * 100
        duty = f"{share:.2}" if share < 10 else f"{share:.0f}"
        call.info(f"{host:<{width}}   {health.word(one.points, one.count):>6}   {duty:>10}%")
    if missing := [host for host in wanted if host not in hosts]:
        call.inv.out("\nFailed to find the following hosts:\n" + "\n".join(missing))
    call.info()


def _ap_claims(options: Namespace, call: Call) -> None:
    from slotwise.client import Schedd

    with Schedd(env=call.inv.env, name=options.name) as schedd:
        running = schedd.query("JobStatus == 2", ["RemoteHost"])
    slots = sorted({_text(ad, "RemoteHost") for ad in running} - {""})
    found: list[ClassAd] = []
    if slots:
        with call.collector() as collector:
            found = collector.query("slot", f"stringListIMember(Name, {quote(','.join(slots))})")
    if not found:
        call.info("No active claims")
        return
    width = max(len("Name"), *(len(_text(ad, "Name", "???")) for ad in found))
    call.info(f"{'Name':<{width}}   {'Activity':<10}   {'Source':<12}   Activations")
    for ad in sorted(found, key=lambda ad: _text(ad, "Name")):
        source = "DirectAttach" if ad.eval("IsDirectAttach") is True else "Negotiator"
        started = whole(ad.eval("NumJobStarts"))
        call.info(
            f"{_text(ad, 'Name', '???'):<{width}}   {_text(ad, 'Activity', 'Unknown'):<10}   {source:<12}   {started}"
        )
    call.info()


def _ep_status(options: Namespace, call: Call) -> None:
    with call.collector() as collector:
        found = collector.query("slot", f"Machine == {quote(options.ep_name)}")
    if not found:
        raise NotFoundError(f"No slots found for execution point: {options.ep_name}")
    rows = sorted(
        (
            _text(ad, "Name"),
            _text(ad, "SlotType"),
            _text(ad, "State", "Unknown"),
            _text(ad, "Activity", "Unknown"),
            f"{whole(ad.eval('Cpus')):>4}",
            f"{whole(ad.eval('Memory'))} MB".rjust(8),
        )
        for ad in found
    )
    headings = ("Slot", "Type", "State", "Activity", "Cpus", f"{'Memory':>8}")
    widths = [max(len(row[n]) for row in (headings, *rows)) for n in range(len(headings))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (headings, *rows)
    ]
    call.info(lines[0])
    for line in lines[1:]:
        call.info(line)
    call.info(f"\nTotal slots: {len(rows)}")
    call.info()


def _ep_rehome(options: Namespace, call: Call) -> None:
    raise UsageError(
        "execution points stay in their pool",
        hint="set COLLECTOR_HOST there (`condor_config_val -startd -set`), then `condor_restart`",
    )


def _cm_status(options: Namespace, call: Call) -> None:
    with call.collector() as collector:
        hosts = _by_host(collector.query("any", 'MyType == "Negotiator" || MyType == "Collector"'))
    if not hosts:
        raise NotFoundError("Failed to locate any Central Managers")
    width = max(map(len, hosts))
    call.info(f"{'Central Manager':^{width}}   Health")
    for host, one in hosts.items():
        call.info(f"{host:<{width}}   {health.word(one.points, one.count)}")
    call.info()


SERVER = Noun(
    "Run operations on the local HTCondor system",
    {"status": Verb("Displays status information about local daemons", _server_status)},
)
AP = Noun(
    "Run operations on pool access points",
    {
        "status": Verb(
            "Displays status information of all or of named access points",
            _ap_status,
            lambda parser: parser.add_argument("hostname", nargs="*", help="Access points to query"),
        ),
        "claims": Verb(
            "Displays active claims held by the access point",
            _ap_claims,
            lambda parser: parser.add_argument("--name", help="Name of the access point to query"),
        ),
    },
)
EP = Noun(
    "Run operations on HTCondor execution points",
    {
        "status": Verb(
            "Displays the status of all slots on an execution point",
            _ep_status,
            lambda parser: parser.add_argument("ep_name", help="Name of the machine to query"),
        ),
        "rehome": Verb("Not available: execution points stay in their pool", _ep_rehome, None),
    },
)
CM = Noun(
    "Run operations on pool central managers",
    {"status": Verb("Displays status information of the central managers", _cm_status)},
)

"""How well daemons do, by their ads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slotwise.classad import ClassAd
from slotwise.cli.htcondor import health

#: The daemon that an ad of a type is of.
_DAEMONS = {
    "daemonmaster": "MASTER",
    "collector": "COLLECTOR",
    "negotiator": "NEGOTIATOR",
    "scheduler": "SCHEDD",
    "startd": "STARTD",
}
Status = tuple[str, dict[str, object]]


def health_str(hp: float, num_daemons: int = 1) -> str:
    """The points of some daemons as a word, from Bad to Good."""
    return health.word(hp, num_daemons)


def _ad_to_daemon_status(ad: Mapping[str, object]) -> Status | None:
    """The daemon of an ad with its address, machine and health; None for ads of others."""
    daemon = _DAEMONS.get(str(ad["MyType"]).lower()) if "MyType" in ad else None
    if daemon is None:
        return None
    points = health.points(ClassAd({name: ad[name] for name in ad}))
    return daemon, {
        "Address": ad["MyAddress"],
        "Health": health.word(points, 1),
        "Machine": ad["Machine"],
        "HealthPoints": points,
    }


def ads_to_daemon_status(ads: Iterable[Mapping[str, object]]) -> Iterator[Status]:
    """The daemons of those ads that are of daemons."""
    for ad in ads:
        if (status := _ad_to_daemon_status(ad)) is not None:
            yield status


def echo_ads_to_daemon_status(
    ads: Iterable[Mapping[str, object]],
) -> Iterator[tuple[str, dict[str, object], Mapping[str, object]]]:
    """As :func:`ads_to_daemon_status`, with the ads."""
    for ad in ads:
        if (status := _ad_to_daemon_status(ad)) is not None:
            yield *status, ad

"""What every daemon says of itself in its ad: who, where, which version, since when, and how much it uses."""

from __future__ import annotations

import time

from slotwise import __version__
from slotwise.config import Config
from slotwise.daemon import duty_cycle, tasks
from slotwise.daemon.runtime import DaemonContext
from slotwise.daemon.vitals import vitals
from slotwise.model.publication import Publication
from slotwise.model.windows import Window
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.wire.address import DaemonAddress


def daemon_ad(context: DaemonContext, my_type: str, *, name: str | None = None) -> dict[str, int | float | str]:
    """The attributes that all daemon ads share, with names as HTCondor publishes them."""
    me = context.address
    now = int(context.clock.now())
    return {
        "MyType": my_type,
        "Name": name or me.name,
        "Machine": me.name,
        "MyAddress": me.target,
        **certificate_address(me),
        "CondorVersion": CONDOR_VERSION,
        "CondorPlatform": condor_platform(),
        "SlotwiseVersion": __version__,
        "DaemonStartTime": me.started_at,
        "DaemonLastReconfigTime": context.configured_at or me.started_at,
        "MyCurrentTime": now,
        **_host(context),
        **vitals(now, me.started_at),
        **duty_cycle_attributes(context.config),
        **tasks.failures.attributes(),
    }


def qualified(name: str, host: str) -> str:
    """The name of a daemon as MASTER_NAME or STARTD_NAME gives it: ``name@host``; the host's where it gives none."""
    return host if not name else name if "@" in name else f"{name}@{host}"


def duty_cycle_attributes(config: Config) -> dict[str, float]:
    """DaemonCoreDutyCycle, and the statistics of the category DC that are to be published."""
    duty_cycle.duty.follow(statistics_window(config, "DC"))
    publication = Publication.configured(config, "DC", "DAEMONCORE", default=duty_cycle.DEFAULT)
    return duty_cycle.statistics(time.monotonic(), publication)


def statistics_window(config: Config, *categories: str) -> Window:
    """The window of Recent... attributes; of the knobs STATISTICS_WINDOW_QUANTUM_<category>, the first that is set."""
    names = (f"STATISTICS_WINDOW_QUANTUM_{category}" for category in categories)
    quantum = next(
        (config.get_float(name) for name in names if config.is_set(name)),
        config.get_float("STATISTICS_WINDOW_QUANTUM"),
    )
    seconds = "STATISTICS_WINDOW_SECONDS"
    if "DC" in categories and config.is_set("DCSTATISTICS_WINDOW_SECONDS"):
        seconds = "DCSTATISTICS_WINDOW_SECONDS"
    return Window(max(quantum, config.get_float(seconds)), quantum)


def _host(context: DaemonContext) -> dict[str, int]:
    """DetectedCpus and DetectedMemory (MiB) of the host."""
    found = {}
    for name, knob in (("DetectedCpus", "DETECTED_CPUS"), ("DetectedMemory", "DETECTED_MEMORY")):
        text = context.config.get(knob)
        if text is not None and text.isdigit():
            found[name] = int(text)
    return found


def certificate_address(me: DaemonAddress) -> dict[str, str]:
    """CertificateAddress: where the daemon takes callers that prove themselves by a certificate."""
    return {"CertificateAddress": me.for_certificates} if me.certificate_port else {}

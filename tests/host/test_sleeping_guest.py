"""A machine that really sleeps: S3 and S4 through /sys and logind, and S5.

Its offline ad is matched by a job, the rooster sends the packet, the machine wakes, the job runs. The central manager
is on this host, the machine is emulated.

``make test-guest`` builds the machine and runs this; SLOTWISE_POWER_GUEST names the directory that it is in.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.namespaces import Host
from tests.support.several_hosts import certificates, config
from tests.support.sleeping_guest import ADDRESS, BOOT_S, HOST_ADDRESS, MAC, Guest
from tests.support.waiting import LIMIT_S, PATIENCE

_IMAGE = os.environ.get("SLOTWISE_POWER_GUEST", "")
pytestmark = [
    pytest.mark.host,
    pytest.mark.slow,
    pytest.mark.timeout(900 * PATIENCE),
    pytest.mark.skipif(not _IMAGE, reason="needs the emulated guest of `make test-guest`"),
    host.needs(host.root, host.programs("ip", "qemu-system-x86_64", "qemu-img", "ssh")),
]

#: The policy is in a file of its own, which a machine that was off does not have any more.
_POLICY = "/run/slotwise-policy"
EXECUTION_POINT = """
HIBERNATE_CHECK_INTERVAL = 2
HIBERNATION_OVERRIDE_WOL = true
SLOTWISE_HIBERNATION_MIN_UPTIME = 600
SLOTWISE_START_TIMEOUT = 240
SLOTWISE_HIBERNATION_WAIT = 30
SLOTWISE_MIN_UID = 0
RunBenchmarks = false
UPDATE_INTERVAL = 30
HIBERNATE = "NONE"
LOCAL_CONFIG_FILE = /run/slotwise-policy
REQUIRE_LOCAL_CONFIG_FILE = false
"""
CENTRAL_MANAGER = """
NEGOTIATOR_INTERVAL = 5
NEGOTIATOR_MIN_INTERVAL = 1
ROOSTER_INTERVAL = 3
SLOTWISE_MIN_UID = 0
"""


def policy_of(level: str, method: str) -> str:
    """Idle for some seconds."""
    is_idle = 'State == "Unclaimed" && time() - EnteredCurrentState > 3'
    return f'HIBERNATE = ifThenElse({is_idle}, "{level}", "NONE")\nLINUX_HIBERNATION_METHOD = {method}\n'


class Site:
    """The machine, and its central manager."""

    def __init__(self, guest: Guest, cm: Host) -> None:
        self.guest = guest
        self.cm = cm

    def policy(self, text: str, *, restart: bool = False) -> None:
        """Another policy for the machine; how it is put to sleep follows only a start of the startd."""
        self.guest.put(_POLICY, text)
        self.guest.ssh("slotwise restart startd" if restart else "slotwise reconfig")

    def slots(self, *names: str) -> list[list[str]]:
        """Attributes of the machine's slots, as the collector has them."""
        done = self.cm.run("status", "-af:t", *names, check=False)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def slept(self) -> int:
        """How often it has slept, as the collector's record says."""
        (found,) = re.findall(r'"sleeps": (\d+)', self.cm.run("power", "report", "-json").stdout) or ["0"]
        return int(found)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A pool of this host and the machine, which is awake and has joined."""
    namespace = f"swg{os.getpid()}"
    with contextlib.ExitStack() as undo:
        root = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="swg-", ignore_cleanup_errors=True)))
        certificates(root / "tls")
        names = f"127.0.0.1 localhost\n{HOST_ADDRESS} cm.example cm\n{ADDRESS} ep.example ep\n"
        (root / "hosts").write_text(names)
        guest = Guest(Path(_IMAGE), root, namespace)
        undo.enter_context(guest.on_its_wire())
        daemons = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, ROOSTER"
        cm = Host(root, "cm", config("cm", daemons, root / "tls") + CENTRAL_MANAGER)
        cm.namespace = namespace
        undo.callback(cm.destroy)
        cm.up()
        guest.power_on()
        guest.ssh("mkswap /dev/vdb && swapon /dev/vdb")
        guest.put("/etc/hosts", names)
        for name in ("ep.pem", "ep.key", "ca.pem"):
            guest.put(f"/etc/slotwise/{name}", (root / "tls" / name).read_text())
        guest.put(
            "/etc/slotwise/config", config("ep", "MASTER, STARTD", Path("/etc/slotwise")) + EXECUTION_POINT
        )  # fmt: skip
        cm.run("token", "auto-approve", "-netblock", f"{ADDRESS}/32", "-lifetime", "1h")
        guest.ssh("systemctl start slotwise")
        found = Site(guest, cm)
        guest.until("the machine has joined", lambda: found.slots("Name"), limit_s=BOOT_S)
        yield found


@pytest.mark.parametrize(
    ("method", "level"), [("/sys", "S3"), ("logind", "S3"), ("/sys", "S4"), ("logind", "S4"), ("logind", "S5")]
)
def test_a_machine_sleeps_and_is_woken_for_a_job(site: Site, method: str, level: str) -> None:
    guest, cm = site.guest, site.cm
    guest.rouse()
    boot = guest.ssh("cat /proc/sys/kernel/random/boot_id").stdout
    before = site.slept()
    guest.heard.write_text("")
    site.policy(policy_of(level, method), restart=True)
    sleeps = "suspended" if level == "S3" else "off"
    guest.until(f"it sleeps ({level})", lambda: guest.state() == sleeps, limit_s=3 * LIMIT_S)
    names = ("Offline", "HibernationState", "HardwareAddress", "WakeOnLanSupportedFlags", "WakeOnLanEnabledFlags")
    (slot,) = site.slots(*names)
    packets = "UniCast Packet,MultiCast Packet,BroadCast Packet,Magic Packet"
    assert slot == ["true", level, MAC, packets, "NONE"]

    (cm.root / "job.sub").write_text(
        "executable = /bin/hostname\noutput = job.out\nlog = job.log\nrequest_disk = 1M\nrequest_memory = 1M\nqueue\n"
    )
    (cm.root / "job.log").unlink(missing_ok=True)
    cm.run("submit", "job.sub")
    guest.until("the packet wakes it", lambda: guest.heard.read_text())
    assert guest.heard.read_text().splitlines()[0] == sleeps
    guest.until("it can be logged in to", lambda: guest.ssh("true", check=False).returncode == 0, limit_s=BOOT_S)
    cm.run("wait", "-wait", str(int(BOOT_S)), "job.log", timeout=BOOT_S + LIMIT_S)
    assert (cm.root / "job.out").read_text() == "ep.example\n"
    guest.until("it can be logged in to", lambda: guest.ssh("true", check=False).returncode == 0, limit_s=BOOT_S)
    assert (guest.ssh("cat /proc/sys/kernel/random/boot_id").stdout == boot) is (level != "S5")
    if level != "S5":  # which the policy does not outlive
        site.policy('HIBERNATE = "NONE"\n')
    assert site.slept() > before
    guest.until("its own ad is back", lambda: site.slots("Offline ?: false") == [["false"]])


def test_a_machine_that_is_off_is_woken_by_the_command(site: Site) -> None:
    guest, cm = site.guest, site.cm
    guest.rouse()
    cm.config_file.write_text(cm.config_file.read_text() + "ROOSTER_UNHIBERNATE = false\n")
    cm.run("reconfig")
    guest.heard.write_text("")
    site.policy(policy_of("S5", "logind"), restart=True)
    guest.until("it is off", lambda: guest.state() == "off", limit_s=3 * LIMIT_S)
    assert cm.run("power", "ep.example").stderr == "Packet sent.\n"
    guest.until("the packet wakes it", lambda: guest.heard.read_text() == "off\n")
    guest.until("its own ad is back", lambda: site.slots("Offline ?: false") == [["false"]], limit_s=BOOT_S)

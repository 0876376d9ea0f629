"""When a machine goes to sleep: the manual's examples over simulated days, what wins on the way, and how it is done."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from slotwise.model.power.decision import (
    Asleep,
    Awake,
    Clear,
    Clearing,
    Complain,
    Look,
    Nothing,
    Return,
    Rules,
    Sleep,
    StayAwake,
    Tell,
    Telling,
    Told,
    Usage,
    Woke,
    agreed,
    step,
)
from slotwise.model.power.levels import level_of, levels_in, listed, name_of
from slotwise.startd.power import methods, wake_on_lan
from slotwise.startd.slot import events as ev

from tests.support import host
from tests.support.configured import configured
from tests.support.startd_point import T0, Point, knobs_of_point

RULES = Rules(interval_s=300, uptime_s=3600, supported=frozenset({3, 4}), wakeable=True)
IDLE = Usage()
HOUR = 3600.0
#: The manual's example ("Entering a Low Power State"), with what it takes for granted written out.
MANUAL = {
    "START": "KeyboardIdle > 15 * 60",
    "HIBERNATE": "ifThenElse((KeyboardIdle > 15 * 60) && (LoadAvg <= 0.3) && ((time() - EnteredCurrentState) > 7200),"
    ' "RAM", "NONE")',
}


def votes_of(point: Point, keyboard_s: float, load: float, now: float) -> tuple[Any, ...]:
    """What HIBERNATE is for each slot, with these measurements."""
    found = []
    for record in point.it.slots:
        point.it.ads.refresh(record, now)
        record.ad.update({"KeyboardIdle": int(keyboard_s), "LoadAvg": load})
        found.append(point.it.settings.policy(record.slot_id, record.type_number).hibernate(record.ad, None, now))
    return tuple(found)


@pytest.mark.parametrize(
    ("word", "level"),
    [("NONE", 0), ("0", 0), ("s1", 1), ("Standby", 1), ("sleep", 1), ("2", 2), ("RAM", 3), ("mem", 3), ("suspend", 3),
     ("DISK", 4), ("hibernate", 4), ("S5", 5), ("Off", 5), ("shutdown", 5), ("S6", 0), ("nonsense", 0)],
)  # fmt: skip
def test_words_are_those_of_the_manual(word: str, level: int) -> None:
    assert level_of(word) == level


def test_lists_of_levels() -> None:
    assert levels_in("S3, disk,NONE what") == {3, 4} and listed({4, 3}) == "S3,S4" and name_of(0) == "NONE"


@pytest.mark.parametrize(
    ("votes", "level"),
    [((), 0), (("RAM",), 3), (("RAM", "NONE"), 0), (("RAM", None), 0), (("RAM", 3), 0), (("S3", "S5", "S1"), 5),
     (("RAM", "nonsense"), 0)],
)  # fmt: skip
def test_all_slots_agree_and_the_deepest_level_is_taken(votes: tuple[object, ...], level: int) -> None:
    assert agreed(votes) == level


def test_a_machine_of_the_manual_over_two_days() -> None:
    """Its owner works from 9 to 17, and a slot is busy from 20 to 22; five minutes are a step."""
    point = Point(knobs_of_point(NUM_CPUS="2", **MANUAL))
    midnight = T0 - T0 % 86400
    stage: Any = Awake(midnight)
    asleep: list[float] = []
    last_key = midnight - HOUR
    for at in range(0, 2 * 86400, 300):
        now, hour = midnight + at, at / HOUR % 24
        if 9 <= hour < 17:
            last_key = now
        point.now = now
        for record in point.it.slots:
            record.ad["KeyboardIdle"] = int(now - last_key)
        if isinstance(stage, Asleep):
            asleep.append(hour)
            if hour == 9.0 or hour == 20.0:  # a key wakes it, a job does
                stage, action = step(stage, Woke(True), RULES, now)
                assert action == Return()
            continue
        busy = 20 <= hour < 22
        votes = votes_of(point, now - last_key, 1.0 if busy else 0.0, now)
        usage = Usage(claims=frozenset({"a"})) if busy else IDLE
        stage, action = step(stage, Look(votes, usage), RULES, now)
        if isinstance(action, Tell):
            stage, action = step(stage, Told(True, IDLE), RULES, now)
            assert action == Sleep(3)
        else:
            assert action == Nothing()
    awake_at = [hour for hour in range(24) if not any(int(record) == hour for record in asleep)]
    assert {10, 11, 12, 16, 21} <= set(awake_at), "while it is needed, and an hour after it was woken"
    assert {3, 8, 19} <= {int(hour) for hour in asleep}


def test_one_busy_slot_keeps_the_machine_awake() -> None:
    point = Point(
        knobs_of_point(NUM_SLOTS_TYPE_1="2", SLOT_TYPE_1="cpus=1", **(MANUAL | {"SLOT2_HIBERNATE": '"NONE"'}))
    )
    votes = votes_of(point, 9999, 0.0, T0 + 8000)
    assert agreed(votes[:1]) == 3 and agreed(votes) == 0


def test_nothing_is_asked_before_the_interval_has_passed_or_without_one() -> None:
    assert step(Awake(100), Look(("RAM",), IDLE), RULES, 99) == (Awake(100), Nothing())
    assert step(Awake(0), Look(("RAM",), IDLE), Rules(supported=frozenset({3}), wakeable=True), 99)[1] == Nothing()


@pytest.mark.parametrize(
    ("vote", "rules", "why"),
    [
        ("RAM", Rules(300, supported=frozenset(), wakeable=True), "no low power states"),
        ("RAM", Rules(300, supported=frozenset({3})), "HIBERNATION_OVERRIDE_WOL"),
        ("S5", RULES, "S5 is none of its low power states (S3,S4)"),
    ],
)
def test_what_the_machine_cannot_do_is_said_and_nothing_else_happens(vote: str, rules: Rules, why: str) -> None:
    stage, action = step(Awake(0), Look((vote,), IDLE), rules, 10)
    assert isinstance(action, Complain) and why in action.why and stage == Awake(310)


def test_jobs_leave_first_and_then_the_collector_has_to_know() -> None:
    running = Usage(claims=frozenset({"a"}), filler=True)
    stage, action = step(Awake(0), Look(("RAM",), running), RULES, 10)
    assert (stage, action) == (Clearing(3, frozenset({"a"})), Clear(3))
    assert step(stage, Look((), running), RULES, 11) == (stage, Nothing())
    stage, action = step(stage, Look((), IDLE), RULES, 12)
    assert (stage, action) == (Telling(3), Tell(3))
    assert step(stage, Told(False, IDLE), RULES, 13) == (
        Awake(313), StayAwake("the collector has not acknowledged the offline ads"),
    )  # fmt: skip
    assert step(stage, Told(True, IDLE), RULES, 13) == (Asleep(3), Sleep(3))


@pytest.mark.parametrize("arrived", [Usage(claims=frozenset({"new"})), Usage(matched=True)])
def test_who_arrives_on_the_way_wins(arrived: Usage) -> None:
    for stage, event in (
        (Clearing(3, frozenset({"old"})), Look((), arrived)),
        (Telling(3), Told(True, arrived)),
    ):
        after, action = step(stage, event, RULES, 10)
        assert after == Awake(310) and isinstance(action, StayAwake)
    assert step(Awake(0), Look(("RAM",), Usage(matched=True)), RULES, 10) == (Awake(310), Nothing())


def test_a_machine_that_was_woken_stays_awake_for_an_hour() -> None:
    assert step(Asleep(3), Woke(True), RULES, 100) == (Awake(3700), Return())
    assert step(Asleep(3), Woke(False), RULES, 100) == (Awake(400), Return())
    assert step(Asleep(5), Woke(True), RULES, 100) == (Awake(400), Return())


def test_a_job_that_has_to_leave_is_told_why() -> None:
    point = Point(knobs_of_point(NUM_SLOTS_TYPE_1="1", SLOT_TYPE_1="cpus=1"))
    record = next(iter(point.it.slots))
    point.claim(record.name.partition("@")[0])
    assert record.slot.claim is not None
    point.it.apply(record, ev.HibernateBegun(), T0 + 5)
    assert record.slot.claim is None
    ended = [message for message in point.it.outbox.schedds if hasattr(message.what, "cause")]
    assert ended[-1].what.cause.code == 1016


# ---------------------------------------------------------------------------------------------------------- the methods


def program(path: Path, text: str) -> Path:
    """An executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_sys_power(tmp_path: Path) -> None:
    power = tmp_path / "sys/power"
    power.mkdir(parents=True)
    assert not methods.of_sys(tmp_path).levels
    (power / "state").write_text("freeze standby mem disk\n")
    (power / "disk").write_text("[platform] shutdown reboot\n")
    found = methods.of_sys(tmp_path)
    assert (found.name, listed(found.levels)) == ("/sys", "S1,S3,S4,S5")
    assert [command[-2:] for command in found.commands[4]] == [
        ("platform", str(power / "disk")), ("disk", str(power / "state")),
    ]  # fmt: skip
    (power / "state").write_text("")
    assert not methods.find(configured("STARTD"), tmp_path).levels, "a kernel without sleep"


def test_proc_and_pm_utils(tmp_path: Path) -> None:
    (tmp_path / "proc/acpi").mkdir(parents=True)
    (tmp_path / "proc/acpi/sleep").write_text("S0 S3 S4 S5\n")
    assert listed(methods.of_proc(tmp_path).levels) == "S3,S4,S5"
    program(tmp_path / "usr/bin/pm-is-supported", '[ "$1" = --suspend ]')
    found = methods.find(configured("STARTD"), tmp_path)
    assert (found.name, listed(found.levels)) == ("pm-utils", "S3"), "the first one wins"
    found = methods.find(configured("STARTD", LINUX_HIBERNATION_METHOD="/proc"), tmp_path)
    assert found.name == "/proc"
    assert not methods.find(configured("STARTD", LINUX_HIBERNATION_METHOD="/sys"), tmp_path).levels
    assert not methods.find(configured("STARTD", LINUX_HIBERNATION_METHOD="magic"), tmp_path).levels


def test_a_plug_in_speaks_for_itself(tmp_path: Path) -> None:
    text = """echo 'HibernationMethod = "x"'; echo 'HibernationSupportedStates = "S3,off"'"""
    plugin = str(program(tmp_path / "plugin", text))
    knobs = {"HIBERNATION_PLUGIN": plugin, "HIBERNATION_PLUGIN_ARGS": "-a b", "HIBERNATION_DEBUG": "true"}
    found = methods.find(configured("STARTD", **knobs))
    assert (found.name, listed(found.levels)) == ("x", "S3,S5")
    assert found.commands[5] == ((plugin, "-d", "-a", "b", "set", "S5"),)
    for wrong in ("echo nonsense", "echo Cpus = 1", "exit 1"):
        broken = str(program(tmp_path / "broken", wrong))
        assert not methods.find(configured("STARTD", HIBERNATION_PLUGIN=broken)).levels


@host.needs(host.root)
def test_a_plug_in_that_root_would_run_is_roots_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever could write it, or exchange it, was root a moment later."""
    ran = tmp_path / "ran"
    text = f"""touch {ran}; echo 'HibernationSupportedStates = "S3"'"""
    plugin = program(tmp_path / "site/plugin", text)
    sound = configured("STARTD", HIBERNATION_PLUGIN=str(plugin))
    assert methods.find(sound).levels
    for path, owner, mode in ((plugin, 4001, 0o755), (plugin.parent, 4001, 0o755), (plugin, 0, 0o757)):
        ran.unlink()
        os.chown(path, owner, -1)
        path.chmod(mode)
        assert not methods.find(sound).levels
        assert not ran.exists()
        os.chown(path, 0, -1)
        path.chmod(0o755)
        assert methods.find(sound).levels
    assert "not used: it would run as root" in caplog.text


def test_what_the_network_card_says() -> None:
    found = wake_on_lan.WakeOnLan(supported=0x2E, enabled=0x20).attributes()
    assert found == {
        "IsWakeOnLanSupported": True, "IsWakeOnLanEnabled": True, "IsWakeAble": True,
        "WakeOnLanSupportedFlags": "UniCast Packet,MultiCast Packet,BroadCast Packet,Magic Packet",
        "WakeOnLanEnabledFlags": "Magic Packet",
    }  # fmt: skip
    assert wake_on_lan.WakeOnLan(0x20, 0).attributes()["IsWakeAble"] is False
    assert wake_on_lan.read("lo") == wake_on_lan.WakeOnLan(), "loopback wakes nobody"


# ------------------------------------------------------------------------------------------------------------- logind

#: Answers as systemd's logind does through busctl; notes what it was asked.
BUSCTL = """#!/bin/sh
echo "$*" >> "${0%/*}/asked"
[ "$1 $2 $3 $4" = "call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager" ] || exit 1
case "$5" in
  CanSuspend) echo 's "yes"';;
  CanHibernate) echo 's "na"';;
  CanPowerOff) echo 's "challenge"';;
  Suspend) [ "$6 $7" = "b false" ];;
  *) exit 1;;
esac
"""


def test_logind_is_asked_what_it_may_and_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/busctl").write_text(BUSCTL)
    (tmp_path / "bin/busctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    wanted = configured("STARTD", LINUX_HIBERNATION_METHOD="logind")
    assert not methods.find(wanted, tmp_path).levels, "no logind runs there"
    (tmp_path / "run/systemd/seats").mkdir(parents=True)
    found = methods.find(wanted, tmp_path)
    assert (found.name, listed(found.levels)) == ("logind", "S3"), "what needs a password or is not there is none"
    ((command,),) = found.commands.values()
    subprocess.run(command, check=True)
    asked = [line.split()[4:] for line in (tmp_path / "bin/asked").read_text().splitlines()]
    assert asked == [["CanSuspend"], ["CanHibernate"], ["CanPowerOff"], ["Suspend", "b", "false"]]


# ------------------------------------------------------------------------------------------------------------ ethtool


def test_bits_of_a_card_come_by_ethtool(monkeypatch: pytest.MonkeyPatch) -> None:
    """``struct ethtool_wolinfo`` is behind the pointer of ``struct ifreq``."""

    def ioctl(file: Any, number: int, request: bytes) -> int:
        name, address = struct.unpack("16sP16x", request)
        assert (number, name.rstrip(b"\0"), len(request)) == (0x8946, b"eth7", 40)
        assert ctypes.string_at(address, 4) == struct.pack("=I", 5)
        ctypes.memmove(address + 4, struct.pack("=II", 0x2F, 0x20), 8)
        return 0

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert wake_on_lan.read("eth7") == wake_on_lan.WakeOnLan(0x2F, 0x20)


@host.needs(host.virtual_cards)
def test_a_card_that_wakes_nobody_says_so_in_the_ad() -> None:
    name = f"sww{os.getpid()}"
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
    try:
        found = wake_on_lan.read(name).attributes()
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)
    assert found == {
        "IsWakeOnLanSupported": False, "IsWakeOnLanEnabled": False, "IsWakeAble": False,
        "WakeOnLanSupportedFlags": "NONE", "WakeOnLanEnabledFlags": "NONE",
    }  # fmt: skip
    assert wake_on_lan.read("no-such-card") == wake_on_lan.WakeOnLan()

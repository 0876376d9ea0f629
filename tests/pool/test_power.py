"""A machine that nobody needs goes to sleep, stays matchable, and is woken for a job. Its sleep is a startd stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pool.test_execution_point import events, slots, submit
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

#: HTCondor's protocol of plug-ins. What calls it is the startd, which then runs no more.
PLUGIN = """#!/bin/sh
case "$*" in
  "-x ad") echo 'HibernationMethod = "test"'; echo 'HibernationSupportedStates = "S3,S4"';;
  *) echo "$PPID $*" >> "${0%/*}/sleeps"; kill -STOP $PPID;;
esac
"""
WAKER = """#!/bin/sh
cat > "${0%/*}/ad.$$"
mv "${0%/*}/ad.$$" "${0%/*}/ad"
kill -CONT "$(tail -n 1 "${0%/*}/sleeps" | cut -d' ' -f1)"
"""
#: Idle for two seconds; the central manager does not wait for ROOSTER_INTERVAL of minutes.
KNOBS = (
    "NUM_CPUS = 2\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 1\nNUM_SLOTS_TYPE_1 = 2\nSLOT_TYPE_1 = cpus=1\n"
    "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, ROOSTER\nROOSTER_INTERVAL = 1\n"
    "HIBERNATE_CHECK_INTERVAL = 1\nHIBERNATION_OVERRIDE_WOL = true\nSLOTWISE_HIBERNATION_WAIT = 0.5\n"
    "SLOTWISE_POWER_WATTS = 90\nSLOTWISE_POWER_ASLEEP_WATTS = 2\n"
    'HIBERNATE = ifThenElse(State == "Unclaimed" && time() - EnteredCurrentState >= 2, "RAM", "NONE")\n'
)


@pytest.fixture
def sleeper(make_pool: Callable[[str], Pool], tmp_path: Path) -> Callable[[str], Pool]:
    """Pools whose only machine sleeps and wakes by scripts."""

    def made(knobs: str = "") -> Pool:
        tools = tmp_path / "tools"
        tools.mkdir()
        for name, text in (("plugin", PLUGIN), ("waker", WAKER)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        pool = make_pool(KNOBS + f"HIBERNATION_PLUGIN = {tools}/plugin\nHIBERNATION_PLUGIN_ARGS = -x\n" + knobs)
        pool.tools = tools  # type: ignore[attr-defined]
        return pool

    return made


def asleep(pool: Pool) -> list[dict[str, object]]:
    """Slots of machines that sleep."""
    return slots(pool, Offline=True)


def test_a_machine_sleeps_through_a_crash_of_the_collector_and_wakes_for_a_job(
    sleeper: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = sleeper(f'ROOSTER_WAKEUP_CMD = "{tmp_path}/tools/waker"\n')
    pool.up()
    for slot in pool.until("the machine sleeps", lambda: len(found := asleep(pool)) == 2 and found):
        assert (slot["State"], slot["HibernationState"], slot["HibernationLevel"]) == ("Unclaimed", "S3", 3)
        assert slot["HibernationSupportedStates"] == "S3,S4" and slot["CanHibernate"] is True
    pool.until("it was told to", lambda: (tmp_path / "tools/sleeps").exists())
    assert (tmp_path / "tools/sleeps").read_text().split()[1:] == ["-x", "set", "S3"]
    pool.kill("collector")
    pool.until("the collector is back, and knows", lambda: pool.answers("collector") and len(asleep(pool)) == 2)
    view = pool.run("status", "-power").stdout
    assert view.count("S3") == 2 and view.count(" 0.00 ") == 2, "kWh of seconds"

    def record() -> dict[str, Any]:
        found: dict[str, Any] = next(iter(json.loads(pool.run("power", "report", "-json").stdout)["machines"]), {})
        return found

    assert record()["sleeps_now"], "the record outlives the collector"
    # Sleeps are recorded in whole seconds; one of less than one is no part of a report.
    pool.until("it has slept for a second", lambda: record()["hours_asleep"] > 1.2 / 3600)
    pool.kill("rooster")
    log = submit(pool, 0.1)
    pool.until("the job has run", lambda: events(log, "005"))
    told = (tmp_path / "tools/ad").read_text()
    assert "Offline = true" in told and "MachineLastMatchTime = " in told and "HardwareAddress" in told
    assert len(slots(pool)) == 2 and not asleep(pool), "the machine's own ads are back"
    assert len((tmp_path / "tools/sleeps").read_text().splitlines()) == 1, "it stays awake for a while"
    one = pool.until("its record is written", lambda: (found := record()) and not found["sleeps_now"] and found)
    assert one["sleeps"] == 1 and 0 < one["hours_asleep"] < 1
    assert one["kwh_saved"] == pytest.approx(one["hours_asleep"] * 0.088, abs=1e-3)
    assert one["machine"] in pool.run("power", "report").stdout


#: Takes its time, as a management controller does.
SLOW_WAKER = """#!/bin/sh
echo called >> "${0%/*}/calls"
[ -e "${0%/*}/killed" ] || sleep 600
""" + WAKER.partition("\n")[2]


def test_a_rooster_that_dies_in_a_call_calls_again_and_no_job_is_lost(
    sleeper: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = sleeper(f'ROOSTER_WAKEUP_CMD = "{tmp_path}/tools/slow"\nROOSTER_WAKEUP_TIMEOUT = 2\n')
    (tmp_path / "tools/slow").write_text(SLOW_WAKER)
    (tmp_path / "tools/slow").chmod(0o755)
    pool.up()
    pool.until("the machine sleeps", lambda: len(asleep(pool)) == 2)
    log = submit(pool, 0.1)
    pool.until("it is called", lambda: (tmp_path / "tools/calls").exists())
    pool.kill("rooster")
    (tmp_path / "tools/killed").touch()
    pool.kill("collector")
    pool.until("the job has run", lambda: events(log, "005"))
    # Once by the former rooster, and again by this one, each time after the call before was given up.
    calls = (tmp_path / "tools/calls").read_text().split()
    given_up = (pool.home.log / "RoosterLog").read_text().count("has not come within 2 s of call ")
    assert 2 <= len(calls) <= 1 + given_up
    pool.until("it is awake", lambda: not asleep(pool))


def test_a_startd_that_dies_while_jobs_leave_is_awake_again_and_the_job_runs_once_more(
    sleeper: Callable[[str], Pool],
) -> None:
    policy = 'HIBERNATE = ifThenElse(State == "Claimed" && Activity == "Busy", "RAM", "NONE")\n'
    pool = sleeper(policy + "NUM_SLOTS_TYPE_1 = 1\nMachineMaxVacateTime = 5\n")
    (pool.root / "job").write_text("#!/bin/sh\ntrap '' TERM\nsleep 600 & wait; wait\n")
    (pool.root / "job").chmod(0o755)
    (pool.root / "s").write_text("executable = job\nlog = l\nrequest_disk = 1M\nrequest_memory = 1M\nqueue\n")
    pool.up()
    pool.run("submit", "s")
    log = pool.root / "l"
    start_log = pool.home.log / "StartLog"
    pool.until("the job has to leave", lambda: "-> Preempting/" in start_log.read_text())
    pool.config_file.write_text(pool.config_file.read_text() + 'HIBERNATE = "NONE"\n')
    pool.kill("startd")
    (pool.root / "job").write_text("#!/bin/sh\nexit 0\n")
    pool.until("the job has run after all", lambda: events(log, "005"))
    assert slots(pool) and not asleep(pool)


def test_a_startd_that_dies_asleep_is_awake_when_it_is_back(sleeper: Callable[[str], Pool]) -> None:
    pool = sleeper("HIBERNATE_CHECK_INTERVAL = 1\nROOSTER_UNHIBERNATE = false\n")
    pool.up()
    pool.until("the machine sleeps", lambda: len(asleep(pool)) == 2)
    pool.config_file.write_text(pool.config_file.read_text() + 'HIBERNATE = "NONE"\n')
    pool.kill("startd")
    pool.until("its ads are those of the startd that was started", lambda: len(slots(pool)) == 2 and not asleep(pool))


def test_the_rooster_sends_the_packet_and_calls_again_what_does_not_come(sleeper: Callable[[str], Pool]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(LIMIT_S)
        card = 'STARTD_ATTRS = HardwareAddress, SubnetMask, WakePort, MyAddress\nMyAddress = "127.0.0.1:9"\n'
        card += 'HardwareAddress = "02:00:00:00:00:7f"\n'
        card += f'SubnetMask = "255.255.255.255"\nWakePort = {listener.getsockname()[1]}\n'
        pool = sleeper(card + "ROOSTER_WAKEUP_TIMEOUT = 2\n")
        pool.up()
        pool.until("the machine sleeps", lambda: len(asleep(pool)) == 2)
        submit(pool, 0.1)
        wanted = b"\xff" * 6 + bytes.fromhex("02000000007f") * 16
        assert listener.recv(2000) == wanted
        assert listener.recv(2000) == wanted, "it is called again"
        failed = pool.until("it is noted", lambda: [ad for ad in asleep(pool) if ad.get("WakeupFailures")])
        assert failed[0]["WakeupCalls"] >= 1 and failed[0]["LastWakeupCall"]
        said = pool.run("power", "-d", str(failed[0]["Machine"]))
        assert (
            said.stderr.splitlines()[-1] == "Packet sent."
            and f"to 127.0.0.1:{listener.getsockname()[1]}" in said.stderr
        )
        startd = pool.pid("startd")
        assert startd is not None
        os.kill(startd, signal.SIGCONT)  # the machine wakes after all
        pool.until("it is back", lambda: len(slots(pool)) == 2 and not asleep(pool))
        pool.until("the rooster sees it", lambda: "is back" in (pool.home.log / "RoosterLog").read_text())

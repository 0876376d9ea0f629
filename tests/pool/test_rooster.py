"""The rooster over machines that only say they sleep: how many at a time, which first, and those that do not come."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.pool.test_execution_point import slots
from tests.support.pool import Pool

#: Notes which machine it was called for, and wakes nobody.
WAKER = """#!/bin/sh
sed -n 's/^Name = "\\(.*\\)"$/\\1/p' >> "${0%/*}/called"
"""
KNOBS = (
    "DAEMON_LIST = MASTER, COLLECTOR, ROOSTER\nROOSTER_INTERVAL = 0\nROOSTER_MAX_UNHIBERNATE = 2\n"
    "ROOSTER_UNHIBERNATE_RANK = Memory\nROOSTER_WAKEUP_TIMEOUT = 3\nEXPIRE_INVALIDATED_ADS = true\n"
    "ABSENT_REQUIREMENTS = true\n"
)


def advertised(pool: Pool, *names: str, offline: bool = True, **attributes: object) -> None:
    """Ads of machines that are not there."""
    ads = []
    for name in names:
        lines: dict[str, object] = {
            "MyType": '"Machine"',
            "Name": f'"slot1@{name}"',
            "Machine": f'"{name}"',
            "OpSys": '"LINUX"',
        }
        lines |= {"State": '"Unclaimed"', "Unhibernate": "true", "Arch": '"X86_64"', "Cpus": 1, "Memory": 1}
        lines |= {"Offline": "true", "HibernationState": '"S3"'} if offline else {}
        ads.append("".join(f"{key} = {value}\n" for key, value in {**lines, **attributes}.items()))
    (pool.root / "ads").write_text("\n".join(ads))
    pool.run("advertise", "-multiple", "UPDATE_STARTD_AD", "ads")


def called(tmp_path: Path) -> list[str]:
    path = tmp_path / "called"
    return path.read_text().split() if path.exists() else []


def test_so_many_at_a_time_the_best_first_and_those_that_do_not_come_are_marked(
    make_pool: Callable[[str], Pool], tmp_path: Path
) -> None:
    waker = tmp_path / "waker"
    waker.write_text(WAKER)
    waker.chmod(0o755)
    pool = make_pool(KNOBS + f'ROOSTER_WAKEUP_CMD = "{waker}"\n')
    pool.up()
    for number in range(1, 6):
        advertised(pool, f"m{number}", Memory=number, Unhibernate="false" if number == 5 else "true")
    assert len(slots(pool)) == 5 and not called(tmp_path), "ROOSTER_INTERVAL = 0 is never"
    pool.config_file.write_text(pool.config_file.read_text() + "ROOSTER_INTERVAL = 1\n")
    pool.run("reconfig")
    pool.until("all have been called", lambda: len(called(tmp_path)) >= 4)
    assert called(tmp_path)[:4] == ["slot1@m4", "slot1@m3", "slot1@m2", "slot1@m1"]
    pool.until(
        "those that did not come are marked",
        lambda: len([ad for ad in slots(pool) if int(ad.get("WakeupFailures", 0)) and ad["LastWakeupCall"]]) == 4,
    )
    log = pool.home.log / "RoosterLog"
    pool.until("the log has the call", lambda: "m4 has not come within 3 s of call 1" in log.read_text())
    assert "ROOSTER_MAX_UNHIBERNATE is reached: 2 machines have to wait" in log.read_text()
    assert re.search(r"^slot1@m4 .* [1-9] +- ", pool.run("status", "-power").stdout, re.MULTILINE)


def test_views_of_machines_that_sleep_and_of_those_that_are_missed(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(KNOBS.replace(", ROOSTER", ""))
    pool.up()
    advertised(pool, "sleeps")
    advertised(pool, "missed", "here", offline=False)
    (pool.root / "gone").write_text('Name = "slot1@missed"\n')
    pool.run("advertise", "INVALIDATE_STARTD_ADS", "gone")
    pool.until("it is missed", lambda: "missed" not in pool.run("status", "-af", "Name").stdout)
    shown = {view: pool.run("status", f"-{view}").stdout for view in ("offline", "absent", "power")}
    for view, name in (("offline", "sleeps"), ("absent", "missed"), ("power", "sleeps")):
        assert f"slot1@{name}" in shown[view] and "here" not in shown[view], view
    assert pool.run("status", "-absent", "-af", "Absent").stdout == "true\n"
    pool.kill("collector")
    pool.until("the collector is back, and remembers both", lambda: pool.answers("collector"))
    assert "slot1@missed" in pool.run("status", "-absent").stdout
    assert "slot1@sleeps" in pool.run("status", "-offline").stdout
    advertised(pool, "missed", offline=False)
    assert "slot1@missed" not in pool.run("status", "-absent").stdout and len(slots(pool)) == 2

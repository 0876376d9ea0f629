"""Schedd cron: what programs of SCHEDD_CRON_JOBLIST find out is in the ads of the schedd and of its submitters."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from slotwise.config import load

from tests.support.access_point import RunningAccessPoint
from tests.support.waiting import until


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def begin(root: Path, **knobs: str) -> RunningAccessPoint:
    running = RunningAccessPoint(root)
    return await running.start(**knobs)


async def reconfigure(running: RunningAccessPoint, **knobs: str) -> list[str]:
    config = load("/dev/null", subsystem="SCHEDD", env={}, home=running.home, runtime=knobs)
    return await running.point.reconfig(config)


async def test_what_a_program_prints_is_in_the_ads_of_the_schedd_and_its_submitters(tmp_path: Path) -> None:
    look = program(
        tmp_path / "look",
        'echo "Said = \\"$0 $1 $SCHEDD_CRON_NAME $SCHEDD_INTERFACE_VERSION $SCHEDD_CRON_CONFIG_VAL $A\\""\n'
        "echo TotalIdleJobs = 777; echo 'Name = \"other\"'; echo Sum = 1 + 1; echo nonsense",
    )
    knobs = {
        "SCHEDD_CRON_JOBLIST": "look", "SCHEDD_CRON_look_EXECUTABLE": str(look), "SCHEDD_CRON_look_MODE": "OneShot",
        "SCHEDD_CRON_look_ARGS": "one", "SCHEDD_CRON_look_ENV": "A=2", "SCHEDD_CRON_CONFIG_VAL": "/bin/values",
    }  # fmt: skip
    running = await begin(tmp_path / "pool", **knobs)
    try:
        await running.submit(1)
        await until(lambda: "Said" in running.point.cron.attributes(), "the program has run")
        ads = running.point.own_ads.advertised()
        [scheduler], [submitter] = ads["Scheduler"].values(), ads["Submitter"].values()
        assert str(scheduler["Said"]).endswith('look one SCHEDD 1 /bin/values 2"')
        assert (str(scheduler["Sum"]), scheduler["Name"]) == ("1 + 1", "here")
        assert isinstance(scheduler["LastUpdate"], int)
        assert scheduler["TotalIdleJobs"] == 777, "as in HTCondor, programs have the last word"
        assert submitter["Said"] == scheduler["Said"] and submitter["Name"] != "other"
        await reconfigure(running)
        assert "Said" not in running.point.own_ads.advertised()["Scheduler"]["here"]
    finally:
        await running.stop()


async def test_the_last_record_of_a_program_replaces_what_it_said_before(tmp_path: Path) -> None:
    two = program(tmp_path / "two", "echo First = 1; echo - tag update:true; echo Second = 2")
    knobs = {
        "SCHEDD_CRON_JOBLIST": "two", "SCHEDD_CRON_two_EXECUTABLE": str(two), "SCHEDD_CRON_two_MODE": "OneShot",
        "SCHEDD_CRON_two_PREFIX": "My",
    }  # fmt: skip
    running = await begin(tmp_path / "pool", **knobs)
    try:
        await until(lambda: "MySecond" in running.point.cron.attributes(), "both records came")
        assert running.point.cron.attributes().keys() == {"MySecond", "MyLastUpdate"}
    finally:
        await running.stop()


async def test_programs_come_go_and_run_again_with_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    once = program(tmp_path / "once", f"echo x >> {tmp_path}/once.log; echo Where = '\"'$(pwd)'\"'")
    never = program(tmp_path / "never", f"touch {tmp_path}/never.log")
    knobs = {
        "SCHEDD_CRON_JOBLIST": "once never bad", "SCHEDD_CRON_once_EXECUTABLE": str(once),
        "SCHEDD_CRON_once_MODE": "OneShot", "SCHEDD_CRON_once_RECONFIG_RERUN": "true",
        "SCHEDD_CRON_never_EXECUTABLE": str(never), "SCHEDD_CRON_never_MODE": "OneShot",
        "SCHEDD_CRON_never_CONDITION": "TotalIdleJobs > 3", "SCHEDD_CRON_bad_PERIOD": "1m",
    }  # fmt: skip
    running = await begin(tmp_path / "pool", **knobs)

    def runs() -> int:
        log = tmp_path / "once.log"
        return len(log.read_text().split()) if log.exists() else 0

    try:
        await until(lambda: "Where" in running.point.cron.attributes(), "it has run")
        assert running.point.cron.attributes()["Where"] == f'"{running.home.log}"', (
            "the log directory is where it begins"
        )
        assert "SCHEDD_CRON_bad_EXECUTABLE is not set" in caplog.text
        assert [*await reconfigure(running, **knobs)] == [
            "the cron job bad does not run: SCHEDD_CRON_bad_EXECUTABLE is not set"
        ]
        await until(lambda: runs() == 2, "once more after the reconfig")
        assert not (tmp_path / "never.log").exists()
    finally:
        await running.stop()


async def test_a_program_that_runs_when_the_configuration_is_read_runs_once_more(tmp_path: Path) -> None:
    once = program(tmp_path / "once", f"echo x >> {tmp_path}/once.log; until [ -e {tmp_path}/go ]; do sleep 0.01; done")
    knobs = {
        "SCHEDD_CRON_JOBLIST": "once", "SCHEDD_CRON_once_EXECUTABLE": str(once),
        "SCHEDD_CRON_once_MODE": "OneShot", "SCHEDD_CRON_once_RECONFIG_RERUN": "true",
    }  # fmt: skip
    running = await begin(tmp_path / "pool", **knobs)
    try:
        await until((tmp_path / "once.log").exists, "it runs")
        for _ in range(2):
            await reconfigure(running, **knobs)
        (tmp_path / "go").touch()
        await until(lambda: (tmp_path / "once.log").read_text() == "x\n" * 2, "it has run twice")
    finally:
        await running.stop()
    assert (tmp_path / "once.log").read_text() == "x\n" * 2


async def test_schedd_cron_name_is_what_the_knobs_begin_with(tmp_path: Path) -> None:
    look = program(tmp_path / "look", 'echo "Said = \\"$SCHEDD_CRON_NAME $SITE_INTERFACE_VERSION\\""')
    knobs = {
        "SCHEDD_CRON_NAME": "site", "SITE_JOBLIST": "look", "SITE_look_EXECUTABLE": str(look),
        "SITE_look_PERIOD": "1h", "SITE_look_KILL": "true", "SCHEDD_CRON_JOBLIST": "other",
    }  # fmt: skip
    running = await begin(tmp_path / "pool", **knobs)
    try:
        await until(lambda: "Said" in running.point.cron.attributes(), "it has run")
        assert running.point.cron.attributes()["Said"] == '"SITE 1"'
    finally:
        await running.stop()


async def test_knobs_that_schedd_attrs_names_are_in_the_ads_of_the_schedd_and_its_submitters(tmp_path: Path) -> None:
    knobs = {"SCHEDD_ATTRS": "Alpha, Name, Unset", "SCHEDD_EXPRS": "Beta", "Alpha": "1 + 1", "Beta": '"x"', "Name": "9"}
    running = await begin(tmp_path / "pool", **knobs)
    try:
        await running.submit(1)
        ads = running.point.own_ads.advertised()
        [scheduler], [submitter] = ads["Scheduler"].values(), ads["Submitter"].values()
        for ad in (scheduler, submitter):
            assert (str(ad["Alpha"]), str(ad["Beta"]), "Unset" in ad) == ("1 + 1", '"x"', False)
        assert scheduler["Name"] == "here" and submitter["Name"] != 9, "who they are is theirs to say"
        await reconfigure(running)
        assert "Alpha" not in running.point.own_ads.advertised()["Scheduler"]["here"]
    finally:
        await running.stop()

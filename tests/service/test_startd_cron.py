"""Cron jobs of a startd as real processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.config import load

from tests.support.fake_collector import FakeCollector
from tests.support.startd_host import Host, startd_host, until, write_config


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def knobs(name: str, program: Path, **more: str) -> str:
    lines = [f"STARTD_CRON_{name}_EXECUTABLE = {program}"]
    lines += [f"STARTD_CRON_{name}_{knob} = {value}" for knob, value in more.items()]
    return "\n".join(lines) + "\n"


def shown(host: Host, attribute: str) -> object:
    (h,) = host.point.holdings.values()
    return h.shown.get(attribute)


async def test_a_program_that_goes_on_and_on_is_heard_line_by_line(tmp_path: Path) -> None:
    program = script(tmp_path / "probe", 'echo "Args = \\"$0 $1 $A\\""; echo Beat = 1; echo - update:true\n'
                     "while [ ! -e go ]; do sleep 0.01; done; echo Beat = 2; echo -; sleep 1000")  # fmt: skip
    text = "STARTD_CRON_JOBLIST = probe\n" + knobs("probe", program, MODE="WaitForExit", PERIOD="1", ARGS="one",
                                                   ENV="A=2", CWD=str(tmp_path))  # fmt: skip
    collector = FakeCollector()
    async with startd_host(tmp_path / "home", text, collector=collector) as host:
        await until(lambda: shown(host, "Beat") == 1)
        assert str(shown(host, "Args")).endswith('one 2"')
        name = f"slot1@{host.point.settings.name}"
        await until(lambda: collector.public.value(name, "Beat") == 1, "it was sent at once")
        (tmp_path / "go").touch()
        await until(lambda: shown(host, "Beat") == 2)
        process = next(iter(host.startd._cron._runner._running.values()))
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_a_job_runs_again_and_again_or_once(tmp_path: Path) -> None:
    often = script(tmp_path / "often", f"echo x >> {tmp_path}/often.log; echo Often = 1")
    once = script(tmp_path / "once", f"echo x >> {tmp_path}/once.log; echo Once = 1; exit 3")
    never = script(tmp_path / "never", f"touch {tmp_path}/never.log")
    text = (
        "STARTD_CRON_JOBLIST = often once never\nSTARTD_CRON_LOG_NON_ZERO_EXIT = true\n"
        + knobs("often", often, PERIOD="1")
        + knobs("once", once, MODE="OneShot", RECONFIG_RERUN="true", CONDITION="TotalCpus == 4")
        + knobs("never", never, PERIOD="1", CONDITION="TotalCpus > 4")
    )

    def runs(name: str) -> int:
        path = tmp_path / f"{name}.log"
        return len(path.read_text().split()) if path.exists() else 0

    async with startd_host(tmp_path / "home", text) as host:
        await until(lambda: runs("often") >= 3 and shown(host, "Once") == 1)
        assert runs("once") == 1
        assert runs("never") == 0
        without = text.replace("often once", "once")
        config = load(str(write_config(host.home, without)), subsystem="STARTD", env={}, home=host.home)
        await host.startd.reconfig(config)
        await until(lambda: runs("once") == 2, "once more after the reconfig")
        assert shown(host, "Often") is None


async def test_a_job_that_hangs_is_killed_when_it_is_due_again(tmp_path: Path) -> None:
    program = script(tmp_path / "hangs", f"echo $$ >> {tmp_path}/pids; sleep 1000")
    text = "STARTD_CRON_JOBLIST = hangs\n" + knobs("hangs", program, PERIOD="1", KILL="true")
    async with startd_host(tmp_path / "home", text):
        pids = await until(lambda: found if len(found := (tmp_path / "pids").read_text().split()) == 2 else None)
        with pytest.raises(ProcessLookupError):
            os.kill(int(pids[0]), 0)


async def test_a_missing_program_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "STARTD_CRON_JOBLIST = gone\n" + knobs("gone", tmp_path / "nothing", PERIOD="1")
    async with startd_host(tmp_path / "home", text) as host:
        await until(lambda: "cannot be started" in caplog.text)
        assert host.place("slot1") == "Unclaimed/Idle"

"""Cron jobs of a startd as real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.cron import runner

from tests.support.fake_collector import FakeCollector
from tests.support.startd_host import Host, startd_host, write_config
from tests.support.waiting import until


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def knobs(name: str, program: Path, **more: str) -> str:
    lines = [f"STARTD_CRON_{name}_EXECUTABLE = {program}"]
    lines += [f"STARTD_CRON_{name}_{knob} = {value}" for knob, value in more.items()]
    return "\n".join(lines) + "\n"


def shown(host: Host, attribute: str) -> object:
    (record,) = host.point.slots
    return record.shown.get(attribute)


async def test_a_program_that_goes_on_and_on_is_heard_line_by_line(tmp_path: Path) -> None:
    args = 'echo "Args = \\"$0 $1 $STARTD_CRON_CONFIG_VAL $A\\""'
    program = script(tmp_path / "probe", f"{args}; echo Beat = 1; echo - update:true\n"
                     "while [ ! -e go ]; do sleep 0.01; done; echo Beat = 2; echo -; sleep 1000")  # fmt: skip
    text = "STARTD_CRON_CONFIG_VAL = /bin/values\nSTARTD_CRON_JOBLIST = probe\n"
    text += knobs("probe", program, MODE="WaitForExit", PERIOD="1", ARGS="one",
                                                   ENV="A=2", CWD=str(tmp_path))  # fmt: skip
    collector = FakeCollector()
    async with startd_host(tmp_path / "home", text, collector=collector) as host:
        await until(lambda: shown(host, "Beat") == 1)
        assert str(shown(host, "Args")).endswith('one /bin/values 2"')
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
    (tmp_path / "pids").touch()
    async with startd_host(tmp_path / "home", text):
        pids = await until(lambda: found if len(found := (tmp_path / "pids").read_text().split()) >= 2 else None)
        with pytest.raises(ProcessLookupError):
            os.kill(int(pids[0]), 0)


async def test_a_missing_program_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "STARTD_CRON_JOBLIST = gone\n" + knobs("gone", tmp_path / "nothing", PERIOD="1")
    async with startd_host(tmp_path / "home", text) as host:
        await until(lambda: "could not start cron job" in caplog.text)
        assert host.place("slot1") == "Unclaimed/Idle"


async def test_what_a_job_leaves_running_with_its_output_open_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE_S", 0.1)
    lazy = script(tmp_path / "lazy", f"(sleep 1000 & echo $! >> {tmp_path}/pids); echo Run = $$")
    async with startd_host(tmp_path / "home", "STARTD_CRON_JOBLIST = lazy\n" + knobs("lazy", lazy, PERIOD="1")) as host:
        first = await until(lambda: shown(host, "Run"))
        await until(lambda: shown(host, "Run") != first, "it runs again")
    for pid in (tmp_path / "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)  # nobody else has: it may be a daemon that is to live


async def test_a_job_that_is_ended_takes_its_children_along(tmp_path: Path) -> None:
    child = f"(trap '' TERM; sleep 1000 & echo $! > {tmp_path}/pid; wait) &"
    stubborn = script(tmp_path / "stubborn", f"{child} echo Up = 1; echo -; wait")
    text = "STARTD_CRON_JOBLIST = stubborn\n" + knobs("stubborn", stubborn, MODE="OneShot")
    async with startd_host(tmp_path / "home", text) as host:
        await until(lambda: shown(host, "Up") == 1 and (tmp_path / "pid").exists())
        pid = int((tmp_path / "pid").read_text())
    await until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


async def test_names_that_differ_in_case_are_one_attribute(tmp_path: Path) -> None:
    text = "STARTD_CRON_JOBLIST = odd\n"
    odd = script(tmp_path / "odd", "echo cpus = 99; echo 'no name = 1'; echo Odd = 2")
    async with startd_host(tmp_path / "home", text + knobs("odd", odd, MODE="OneShot")) as host:
        await until(lambda: shown(host, "Odd") == 2)
        (record,) = host.point.slots
        assert record.ad["Cpus"] == 4 and "no name" not in record.shown
        write_config(host.home, "")
        config = load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
        await host.startd.reconfig(config)
        assert "Odd" not in record.ad and record.ad["Cpus"] == 4


async def test_benchmarks_run_when_they_are_wanted_and_one_after_another(tmp_path: Path) -> None:
    speed = script(tmp_path / "speed", f"mkdir {tmp_path}/alone && echo Speed = 7; rmdir {tmp_path}/alone")
    also = script(
        tmp_path / "also", f"mkdir {tmp_path}/alone && echo 'Name = \"x\"'; echo Also = $1; rmdir {tmp_path}/alone"
    )
    text = (
        "RunBenchmarks = BenchmarkNow =?= true\nSTARTD_ATTRS = BenchmarkNow\nBENCHMARKS_JOBLIST = speed also mips\n"
        f"BENCHMARKS_speed_EXECUTABLE = {speed}\nBENCHMARKS_also_EXECUTABLE = {also}\nBENCHMARKS_also_ARGS = 8\n"
        f"BENCHMARKS_also_PREFIX = My\nBENCHMARKS_MIPS_EXECUTABLE = {tmp_path}/condor_mips\n"
    )
    async with startd_host(tmp_path / "home", text) as host:
        assert shown(host, "LastBenchmark") == 0
        wanted = text.replace("STARTD_ATTRS", "BenchmarkNow = true\nSTARTD_ATTRS")
        await host.startd.reconfig(
            load(str(write_config(host.home, wanted)), subsystem="STARTD", env={}, home=host.home)
        )
        await host.pass_time(10)
        await until(lambda: shown(host, "LastBenchmark"), "they have run")
        assert (shown(host, "Speed"), shown(host, "MyAlso")) == (7, 8)
        assert isinstance(mips := shown(host, "Mips"), int) and mips > 0, "the kernel in the place of a missing program"
        assert shown(host, "KFlops") is None, "it is not in the list"

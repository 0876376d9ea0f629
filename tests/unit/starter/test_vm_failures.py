"""A machine that does not start makes its host look again, and is not taken for the host's failure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from slotwise.execution.keeper_spec import Identity, KeeperResult
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import NO_JOB
from slotwise.starter.runtimes.runtime import ContainerRun
from slotwise.starter.runtimes.vm import driver
from slotwise.starter.runtimes.vm.plan import REPORT, Report
from slotwise.starter.runtimes.vm.probe import Found
from slotwise.starter.runtimes.vm.rules import VmRules

RESULT = KeeperResult(how="exited", code=1, ended_by="itself", started_at=1.0, ended_at=2.0)


@pytest.mark.parametrize("works", [True, False])
def test_a_job_cannot_take_a_host_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, works: bool) -> None:
    async def found(*_given: object, **_more: object) -> Found:
        return Found(driver="qemu", accelerator="kvm") if works else Found(reason="KVM is gone")

    async def conclude() -> driver.VirtualMachines:
        made = driver.VirtualMachines(VmRules(kind="kvm", memory_mib=64), tmp_path / "execute", root=False)
        run = ContainerRun("7.1#1", Choice("vm"), "", RunDirectory(tmp_path, tmp_path / "control"), Identity(), NO_JOB)
        ended = await made.conclude(run, RESULT)
        assert (ended.how, ended.stage) == ("failed", "runtime")
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return made

    monkeypatch.setattr(driver, "find", found)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / REPORT).write_text(Report("VMGAHP_ERR_CRITICAL", "cannot open a backing file").encode())
    offer = asyncio.run(conclude()).offer
    assert (offer.works, offer.reason) == (works, "" if works else "KVM is gone")

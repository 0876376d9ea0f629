"""The kernel and the initial RAM disk that a Xen machine boots: the host's libvirt reads them as root."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.execution.job_view import read_job, read_slot
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.runtime import ContainerJob
from slotwise.starter.runtimes.vm.driver import VirtualMachines
from slotwise.starter.runtimes.vm.rules import VmRules

from tests.support import host


@host.needs(host.root)
@pytest.mark.parametrize("name", ["Kernel", "Initrd"])
def test_root_reads_no_file_that_the_job_may_not(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        top = Path(directory)
        top.chmod(0o755)
        (top / "file").touch()
        (top / "secret").touch(mode=0o600)
        (top / "scratch").mkdir()
        ad = {
            "ClusterId": 7, "ProcId": 1, "User": "ann@here", "JobVMType": "xen", "JobVMMemory": 64,
            "VMPARAM_vm_Disk": f"{top}/file:xvda:r", "VMPARAM_Xen_Kernel": f"{top}/file", "VMPARAM_Xen_Root": "xvda",
            f"VMPARAM_Xen_{name}": f"{top}/secret",
        }  # fmt: skip
        job_ad, machine_ad = ClassAd(ad), ClassAd({"Memory": 64})
        context = JobContext(
            read_job(lookup(job_ad), "ann@here"), read_slot(lookup(machine_ad)), job_ad, machine_ad,
            RunDirectory(top, top / "control"), Identity(65534, 65534), transfers=True, root=True,
        )  # fmt: skip
        driver = VirtualMachines(VmRules(kind="xen", memory_mib=64, uri="xen:///system"), top / "execute", root=True)
        job = ContainerJob("7.1#1", Choice("vm"), context)
        with pytest.raises(LaunchRefusedError, match=f"XEN_{name.upper()}_NOT_FOUND: {top}/secret cannot be read"):
            asyncio.run(driver.prepare(job, lambda _said: None))

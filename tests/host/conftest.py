"""What tests of this directory need of the host; a test that cannot run here is skipped with what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from slotwise.execution.cgroup.probe import CgroupHost, probe
from slotwise.starter.enforcement.host_programs import has_device_mapper

from tests.support.polling import polling_stays

__all__ = ["cgroups", "freezer", "loop_mounts", "lvm", "memory_cgroup", "polling_stays", "root"]


@pytest.fixture(scope="session")
def cgroups() -> CgroupHost:
    """What control groups this host lets us use."""
    return probe("slotwise-test", is_root=os.geteuid() == 0)


@pytest.fixture
def root() -> None:
    """The test needs root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def memory_cgroup(root: None, cgroups: CgroupHost) -> CgroupHost:
    """The test needs a memory cgroup."""
    if not cgroups.has("memory"):
        pytest.skip(f"needs a memory cgroup: {'; '.join(cgroups.problems)}")
    return cgroups


@pytest.fixture
def freezer(root: None, cgroups: CgroupHost) -> CgroupHost:
    """The test needs a freezer."""
    if cgroups.version == 0 or (cgroups.version == 1 and not cgroups.has("freezer")):
        pytest.skip("needs a cgroup freezer")
    return cgroups


@pytest.fixture(scope="session")
def lvm() -> None:
    """The test needs LVM."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for tool in ("lvcreate", "thin_check", "losetup", "mkfs.ext4"):
        if shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            pytest.skip(f"needs {tool}")
    if not has_device_mapper():
        pytest.skip("needs a kernel with device mapper (/dev/mapper/control)")


@pytest.fixture
def loop_mounts(root: None) -> None:
    """The test needs file systems in files."""
    for tool in ("mkfs.ext4", "losetup", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs loop devices")

"""What many tests of this directory need of the host, see `tests.support.host`."""

from __future__ import annotations

import os

import pytest
from slotwise.execution.cgroup.probe import CgroupHost, probe

from tests.support import host
from tests.support.polling import polling_stays

__all__ = ["cgroups", "freezer", "loop_mounts", "lvm", "memory_cgroup", "polling_stays", "root"]


@pytest.fixture(scope="session")
def cgroups() -> CgroupHost:
    """What control groups this host lets us use."""
    return probe("slotwise-test", is_root=os.geteuid() == 0)


@pytest.fixture
def root() -> None:
    """The test needs root."""
    host.need(host.root)


@pytest.fixture
def memory_cgroup(root: None, cgroups: CgroupHost) -> CgroupHost:
    """The test needs a memory cgroup."""
    host.need(host.cgroup("memory", cgroups.version))
    assert cgroups.has("memory"), cgroups.problems
    return cgroups


@pytest.fixture
def freezer(root: None, cgroups: CgroupHost) -> CgroupHost:
    """The test needs a freezer."""
    host.need(host.any_cgroup, host.cgroup("freezer", cgroups.version))
    assert cgroups.version == 2 or cgroups.has("freezer"), cgroups.problems
    return cgroups


@pytest.fixture(scope="session")
def lvm() -> None:
    """The test needs LVM."""
    host.need(host.lvm)


@pytest.fixture
def loop_mounts() -> None:
    """The test needs file systems in files."""
    host.need(host.loop_mounts)

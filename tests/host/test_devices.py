"""A real keeper that keeps its job from a device that every host has, with cgroups of both versions."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from slotwise.execution.cgroup.plan import CgroupRules, plan
from slotwise.execution.cgroup.probe import probe
from slotwise.execution.keeper_spec import Identity, KeeperResult, KeeperSpec, read_result
from slotwise.execution.launcher import Launcher

from tests.support.host import cgroup, device_programs, need
from tests.support.waiting import until

pytestmark = pytest.mark.host
FULL = Path("/dev/full")
SCRIPT = "head -c 1 /dev/full > /dev/null && echo open; head -c 1 /dev/zero > /dev/null && echo other; exit 0"


@pytest.fixture
def place(root: None) -> Iterator[Path]:
    """A directory that every account may enter."""
    found = Path(tempfile.mkdtemp(prefix="slotwise-", dir="/var/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture
async def launcher(place: Path) -> AsyncIterator[Launcher]:
    found = Launcher(place / "notices", lambda _name, _what: None)
    await found.start()
    yield found
    await found.stop()


async def finished(launcher: Launcher, control: Path, spec: KeeperSpec) -> KeeperResult:
    control.mkdir()
    (control / "spec").write_bytes(spec.encode())
    await launcher.spawn(control)
    result = await until(lambda: read_result(control), "the keeper has written its result")
    assert isinstance(result, KeeperResult)
    return result


@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_denied_device_cannot_be_opened(launcher: Launcher, place: Path, version: str) -> None:
    need(device_programs if version == "2" else cgroup("devices", 1))
    host = probe("slotwise-test", is_root=True, version=version)
    assert host.version == int(version), host.problems
    number = FULL.stat().st_rdev
    said: dict[bool, list[str]] = {}
    for denied in (True, False):
        rules = CgroupRules(memory_policy="none", deny=((os.major(number), os.minor(number)),) if denied else ())
        groups = plan(host, rules, name=uuid.uuid4().hex, cpus=1, memory_mib=0, user=True)
        out = place / f"out-{denied}"
        out.touch()
        os.chown(out, 65534, 65534)
        spec = KeeperSpec(
            name="x", exe="/bin/sh", args=("sh", "-c", SCRIPT), env={"PATH": "/usr/bin:/bin"}, cwd="/",
            stdout=str(out), identity=Identity(uid=65534, gid=65534), cgroup=groups,
        )  # fmt: skip
        result = await finished(launcher, place / f"control-{denied}", spec)
        assert (result.how, result.code) == ("exited", 0), result
        assert not any("devices" in limit for limit in result.unenforced), result.unenforced
        said[denied] = out.read_text().split()
        assert not any(Path(path).exists() for path in groups.make)
    assert said == {True: ["other"], False: ["open", "other"]}

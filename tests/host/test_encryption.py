"""Encrypted scratch directories on a real host: what reaches the disk is noise, and the key goes with the run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.exit_status import SCRATCH_DIR_ERROR
from slotwise.starter.enforcement.host_programs import run as tool
from slotwise.starter.scratch.encryption import DM_CRYPT, FSCRYPT, open_labels
from slotwise.starter.scratch.volumes import Volumes
from slotwise.starter.settings import VolumeSettings
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.starter_bench import StarterBench, starter_bench
from tests.support.waiting import block_until

pytestmark = pytest.mark.host
EXITED, EVICTED, NOT_STARTED = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.NOT_STARTED
SECRET, NAME = "what-nobody-else-reads", "the-name-of-the-file"


def way_of(store: Path) -> str:
    """How this host encrypts volumes in files; skips where it cannot."""
    host.need(host.encryption)
    volumes = Volumes(VolumeSettings(wanted="loop"), store)
    volumes.probe(root=True)
    assert volumes.encryption == (FSCRYPT if host.dm_crypt() else DM_CRYPT), volumes.no_encryption
    return volumes.encryption


@pytest.fixture(params=["file", "lvm"])
def knobs(request: pytest.FixtureRequest, loop_mounts: None, tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"STARTD_ENFORCE_DISK_LIMITS": "true"}
    if request.param == "file":
        way_of(tmp_path / "probe")
        return {**found, "SLOTWISE_SCRATCH_VOLUMES": "loop"}
    request.getfixturevalue("lvm")
    host.need(host.dm_crypt)
    backing = {"LVM_BACKING_FILE": tmp_path / "backing.img", "LVM_BACKING_FILE_SIZE_MB": 200}
    return {**found, "SLOTWISE_SCRATCH_VOLUMES": "lvm", **backing}


def on_disk(bench: StarterBench, knobs: dict[str, Any]) -> bytes:
    """What somebody finds who takes the disk away."""
    subprocess.run(["sync"], check=True)
    if backing := knobs.get("LVM_BACKING_FILE"):
        return Path(backing).read_bytes()
    (image,) = (bench.execute / ".starter" / "volumes").glob("dir_*.img")
    return image.read_bytes()


WRITES = f"echo {SECRET} > {NAME}; sync; until [ -e go ]; do sleep 0.05; done; cat {NAME}"


async def test_what_a_job_writes_reaches_the_disk_encrypted(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        assert (await bench.facts()).eval("HasEncryptExecuteDirectory") is True
        run = bench.submit("/bin/sh", "-c", WRITES, slot={"Disk": 20_000}, EncryptExecuteDirectory=True)
        pid = (await bench.running(run)).pid
        scratch = Path(f"/proc/{pid}/cwd")
        await bench.eventually(lambda: (scratch / NAME).exists() and (scratch / NAME).read_text(), "it has written")
        disk = on_disk(bench, knobs)
        assert SECRET.encode() not in disk and NAME.encode() not in disk
        (scratch / "go").touch()
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), bench.output(run, "_condor_stderr")
        assert bench.output(run).splitlines()[0] == SECRET
        await nothing_left(bench)


async def test_without_it_the_same_is_there_to_be_read(knobs: dict[str, Any]) -> None:
    """The test above would see it."""
    async with starter_bench(**knobs) as bench:
        run = bench.submit("/bin/sh", "-c", WRITES, slot={"Disk": 20_000})
        pid = (await bench.running(run)).pid
        scratch = Path(f"/proc/{pid}/cwd")
        await bench.eventually(lambda: (scratch / NAME).exists() and (scratch / NAME).read_text(), "it has written")
        disk = on_disk(bench, knobs)
        assert SECRET.encode() in disk and NAME.encode() in disk
        (scratch / "go").touch()
        await bench.ended(run)


async def test_a_killed_starter_leaves_no_mount_and_no_key(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs, ENCRYPT_EXECUTE_DIRECTORY="true") as bench:
        run = bench.submit("/bin/sh", "-c", WRITES, slot={"Disk": 20_000})
        pid = (await bench.running(run)).pid
        scratch = Path(f"/proc/{pid}/cwd")
        await bench.eventually(lambda: (scratch / NAME).exists(), "it has written")
        await bench.kill_9()
        assert (scratch / NAME).read_text().strip() == SECRET, "the job goes on"
        await bench.start()
        (scratch / "go").touch()
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        assert bench.output(run).strip() == SECRET
        await nothing_left(bench)
        assert SECRET not in bench.log()


async def test_a_promise_that_cannot_be_kept_is_refused(root: None, loop_mounts: None) -> None:
    without: dict[str, Any] = {"STARTD_ENFORCE_DISK_LIMITS": "false"}
    forbidden: dict[str, Any] = {
        "STARTD_ENFORCE_DISK_LIMITS": "true", "SLOTWISE_SCRATCH_VOLUMES": "loop",
        "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION": "true", "ENCRYPT_EXECUTE_DIRECTORY": "true",
    }  # fmt: skip
    for knobs, why in ((without, "STARTD_ENFORCE_DISK_LIMITS"), (forbidden, "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION")):
        async with starter_bench(**knobs) as bench:
            assert (await bench.facts()).eval("HasEncryptExecuteDirectory") is False
            run = bench.submit("/bin/true", slot={"Disk": 20_000}, EncryptExecuteDirectory=True)
            ended = await bench.ended(run)
            assert (ended.how, ended.reason_code) == (NOT_STARTED, SCRATCH_DIR_ERROR)
            assert ended.reason.startswith("Can't create encrypted scratch dir") and why in ended.reason
            assert (await bench.ended(bench.submit("/bin/true", slot={"Disk": 20_000}))).how == EXITED


async def test_a_starter_that_cannot_encrypt_all_runs_nothing(root: None) -> None:
    with pytest.raises(AssertionError, match="ENCRYPT_EXECUTE_DIRECTORY is true, and this host cannot encrypt"):
        async with starter_bench(ENCRYPT_EXECUTE_DIRECTORY="true", STARTD_ENFORCE_DISK_LIMITS="false"):
            pass


async def nothing_left(bench: StarterBench) -> None:
    """No directory, mount, volume or open encrypted device of a job."""
    await bench.clean()
    assert not list(bench.execute.glob(".starter/volumes/dir_*"))
    assert str(bench.root) not in Path("/proc/self/mounts").read_text()
    await bench.eventually(
        lambda: not [label for label in open_labels("slotwise_") if "dir_" in label], "no key is left"
    )


def test_a_volume_that_was_encrypted_cannot_be_mounted_again(loop_mounts: None, tmp_path: Path) -> None:
    way = way_of(tmp_path / "store")
    volumes = Volumes(VolumeSettings(wanted="loop"), tmp_path / "store")
    volumes.probe(root=True)
    mount = tmp_path / "mount"
    mount.mkdir()
    volumes.make("dir_1_1", mount, 8192, encrypted=True)
    try:
        (mount / NAME).write_text(SECRET)
        copy = tmp_path / "copy.img"
        subprocess.run(["sync"], check=True)
        image = tmp_path / "store" / "dir_1_1.img"
        copy.write_bytes(image.read_bytes())
        assert SECRET.encode() not in copy.read_bytes() and NAME.encode() not in copy.read_bytes()
    finally:
        assert volumes.remove("dir_1_1", mount) == []
    assert not mount.is_mount() and not image.exists()
    copy.rename(image)  # as if it had not been removed
    with pytest.raises(Exception, match="key has gone" if way == FSCRYPT else "mount"):
        volumes.take_up("dir_1_1", mount, 8192)
    assert volumes.remove("dir_1_1", mount) == [] and not mount.is_mount()
    assert way in (DM_CRYPT, FSCRYPT)
    # Its device goes with the last process in whose name space it is mounted, such as one of a test beside this one.
    block_until(lambda: str(tmp_path) not in tool("losetup", "-l", "-n", "-O", "BACK-FILE"), "no device is left")

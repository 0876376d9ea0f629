"""A power cut, as a file system that is shut down without writing what it holds in memory: nothing that was
acknowledged is lost, no cluster id is given twice, and an event is in its log once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import htcondor2
import pytest
from slotwise import durable_files
from slotwise.wire.token import write_secret

from tests.support import host
from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

pytestmark = [
    host.needs(host.power_cuts),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class Disk:
    """An ext4 of 64 MB in a file."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._cuts = directory, 0
        self._image = directory / "image"
        self.root = directory / "disk"
        self.root.mkdir()
        self._image.touch()
        os.truncate(self._image, 64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True)
        self._mount()

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop,nodev,nosuid", str(self._image), str(self.root)], check=True)

    def cut_power(self) -> None:
        """From here on nothing reaches the disk."""
        host.shut_down(self.root)

    def come_back(self) -> None:
        """The disk as it was when power was cut; files that are still open are those of the former one."""
        self._cuts += 1
        fresh = self._directory / f"image.{self._cuts}"
        subprocess.run(["cp", "--sparse=always", str(self._image), str(fresh)], check=True)
        self.leave()
        self._image = fresh
        self._mount()

    def leave(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.root)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.leave()


@pytest.fixture
async def schedd(disk: Disk) -> AsyncIterator[RunningAccessPoint]:
    running = RunningAccessPoint(disk.root / "pool")
    durable_files.synchronise(disk.root)
    yield running
    await running.stop()


@pytest.fixture
async def point(schedd: RunningAccessPoint, tmp_path: Path) -> AsyncIterator[ExecutionPoint]:
    pretended = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await pretended.start()
    yield pretended
    await pretended.stop()


async def cut(schedd: RunningAccessPoint, disk: Disk, **knobs: str) -> None:
    """Cut the power, and start the schedd again."""
    await fail(schedd, disk)
    await schedd.start(**knobs)


async def fail(schedd: RunningAccessPoint, disk: Disk) -> None:
    """Cut the power; the schedd writes nothing more."""

    def dead(connection: object, batches: object) -> None:
        raise SystemExit  # ends the writer's thread

    schedd.point.store._transaction = dead  # type: ignore[method-assign]
    disk.cut_power()
    await schedd.kill()
    disk.come_back()


def numbers(log: Path) -> list[int]:
    return [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


async def test_what_was_acknowledged_is_there(schedd: RunningAccessPoint, disk: Disk) -> None:
    await schedd.start()
    clusters = [await schedd.submit(2, UserLog="job.log") for _ in range(3)]
    await schedd.act("HOLD", f"ClusterId == {clusters[0]}")
    await cut(schedd, disk)
    ads = await schedd.jobs()
    assert sorted({ad["ClusterId"] for ad in ads}) == clusters and len(ads) == 6
    assert sum(ad["JobStatus"] == 5 for ad in ads) == 2
    log = schedd.home.root / "job.log"

    def all_told() -> bool:
        return log.exists() and sorted(numbers(log)) == [0] * 6 + [12] * 2

    await schedd.until(all_told, "each event is in the log once")
    assert await schedd.submit() == clusters[-1] + 1


@pytest.mark.parametrize("setting", ["NORMAL", "OFF"])
async def test_cluster_ids_are_not_given_again_without_flushes(
    schedd: RunningAccessPoint, disk: Disk, setting: str
) -> None:
    await schedd.start(SLOTWISE_SCHEDD_SYNCHRONOUS=setting)
    given = [await schedd.submit() for _ in range(5)]
    await cut(schedd, disk, SLOTWISE_SCHEDD_SYNCHRONOUS=setting)
    assert {ad["ClusterId"] for ad in await schedd.jobs()} != set(given), "power was not cut"
    assert await schedd.submit() > max(given)


async def test_outputs_are_there_when_their_end_was_acknowledged(
    schedd: RunningAccessPoint, point: ExecutionPoint, disk: Disk
) -> None:
    outputs = {"_condor_stdout": b"said", "one": b"1" * 600_000, **{f"deep/er/{name}": b"x" for name in range(20)}}
    point.script = lambda ad: Script(outputs=outputs)
    await schedd.start()
    await schedd.submit(Out="out", UserLog="job.log")
    await schedd.negotiate(point.address)

    def acknowledged() -> bool:
        return bool(point.history) and not point.runs  # its starter has deleted its copies

    await schedd.until(acknowledged)
    await cut(schedd, disk)
    await schedd.until_gone()
    (past,) = await schedd.history()
    assert past["JobStatus"] == 4
    root = schedd.home.root
    assert (root / "out").read_bytes() == b"said" and (root / "one").stat().st_size == 600_000
    assert all((root / f"deep/er/{name}").read_bytes() == b"x" for name in range(20))
    log = root / "job.log"

    def all_told() -> bool:
        return log.exists() and numbers(log) == [0, 1, 40, 40, 5]

    await schedd.until(all_told)
    assert len(point.history) == 1


async def test_plans_of_events_stay_until_their_logs_are_flushed(schedd: RunningAccessPoint, disk: Disk) -> None:
    await schedd.start()
    await schedd.submit(UserLog="job.log")
    plans = "SELECT count(*) FROM planned"

    def deleted() -> bool:
        reader = schedd.point.store.reader()
        try:
            return reader.execute(plans).fetchone() == (0,)
        finally:
            reader.close()

    await schedd.until(deleted)
    await cut(schedd, disk)
    assert numbers(schedd.home.root / "job.log") == [0]


async def test_with_enable_userlog_fsync_the_log_itself_is_flushed_at_once(
    schedd: RunningAccessPoint, disk: Disk
) -> None:
    await schedd.start(ENABLE_USERLOG_FSYNC="true")
    await schedd.submit(UserLog="job.log")
    await fail(schedd, disk)
    assert numbers(schedd.home.root / "job.log") == [0]
    await schedd.start()


def test_a_secret_is_whole(disk: Disk) -> None:
    write_secret(disk.root / "key", "first")
    write_secret(disk.root / "key", "second")
    disk.cut_power()
    disk.come_back()
    assert (disk.root / "key").read_text() == "second"

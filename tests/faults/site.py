"""Where faults are dealt: a pool on this host, or one whose hosts are network namespaces on a wire."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tests.faults.wire import Wire
from tests.support import host
from tests.support.namespaces import wired
from tests.support.pool import Pool
from tests.support.several_hosts import certificates, config, join
from tests.support.small_disk import SmallDisk, small_disk

CONFIG = """
NUM_CPUS = 16
MEMORY = 4096
NEGOTIATOR_INTERVAL = 1
MASTER_BACKOFF_CEILING = 2
RESERVED_DISK = 0
SLOTWISE_USE_GPUS = false
MOUNT_UNDER_SCRATCH =
"""
#: DAEMON_LIST of the hosts.
HOSTS = {
    "cm": "MASTER, COLLECTOR, NEGOTIATOR",
    "ap": "MASTER, SCHEDD",
    "ep": "MASTER, STARTD",
    "fp": "MASTER, STARTD",
}
#: Megabytes of a pool's directory, and of its user's files.
_OF_POOL, _OF_USER = 300, 60


class Site(Struct):
    """A pool that is not up yet, and what of it can be made to fail."""

    #: Where jobs are submitted.
    access_point: Pool
    #: All hosts of the pool, the access point among them.
    hosts: tuple[Pool, ...]
    #: Where its user keeps event logs and outputs.
    users: Path
    #: Disks that can be filled; none where none can be mounted.
    disks: tuple[SmallDisk, ...] = ()
    #: The wire of the hosts; None for a single host.
    wire: Wire | None = None

    def up(self) -> None:
        """Start it, for the first time."""
        if self.wire is None:
            self.access_point.up()
        else:
            join(*self.wire.hosts)


@contextlib.contextmanager
def one_host(base: Path) -> Iterator[Site]:
    """All daemons on this host."""
    with _disks(base, "home") as (places, users, disks):
        pool = Pool(places["home"], CONFIG)
        try:
            yield Site(pool, (pool,), users, disks)
        finally:
            _free(disks)
            pool.destroy()


@contextlib.contextmanager
def several_hosts(base: Path) -> Iterator[Site]:
    """A central manager, an access point and two execution points, see :func:`refusal` whether this can be had."""
    tls = base / "tls"
    certificates(tls, HOSTS)
    with _disks(base, "ap", "ep") as (places, users, disks):
        configs = {name: config(name, daemons, tls) + CONFIG for name, daemons in HOSTS.items()}
        with wired(configs, places) as made:
            try:
                yield Site(made["ap"], tuple(made.values()), users, disks, Wire(tuple(made.values())))
            finally:
                _free(disks)


def refusal() -> str:
    """Why there are no several hosts; empty where there are."""
    return host.network_namespaces() or host.programs("nft")()


def _free(disks: Sequence[SmallDisk]) -> None:
    for disk in disks:
        disk.make_room()


@contextlib.contextmanager
def _disks(base: Path, *names: str) -> Iterator[tuple[dict[str, Path], Path, tuple[SmallDisk, ...]]]:
    """Directories of hosts, that of the user, and the disks that they are where there can be some."""
    if why := host.loop_mounts():
        print(f"no disks are filled: {why}")
        yield {name: base / name for name in names}, base, ()
        return
    with contextlib.ExitStack() as mounted:
        made = {name: mounted.enter_context(small_disk(_OF_POOL)) for name in names}
        users = mounted.enter_context(small_disk(_OF_USER))
        yield {name: disk.at for name, disk in made.items()}, users.at, (*made.values(), users)

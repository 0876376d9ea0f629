"""Logical volumes for scratch directories: an admin's volume group, or one on a backing file of our own.

Names begin with a tag that is this EXECUTE's alone, so that pools may share a group. All functions block. Knobs:
LVM_VOLUME_GROUP_NAME, LVM_THINPOOL_NAME, LVM_USE_THIN_PROVISIONING, LVM_BACKING_FILE, LVM_THIN_LV_EXTRA_SIZE_MB.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

from msgspec import Struct

from slotwise.errors import HostError
from slotwise.starter.enforcement.host_programs import has_device_mapper, installed, run
from slotwise.starter.settings import VolumeSettings

_log = logging.getLogger(__name__)

#: Thin pools are this full (data or metadata, percent) when no further volume is made.
POOL_FULL_PERCENT = 97.0
#: How long a volume that is still in use just after its processes ended may take to be free, seconds.
_BUSY_PATIENCE_S = 5.0
#: Extents of a group of our own: small, since scratch volumes are.
_EXTENT = "1m"


class PoolUse(Struct, frozen=True):
    """How full a thin pool is, in percent."""

    name: str
    data: float
    metadata: float

    @property
    def worst(self) -> float:
        """The fuller of both parts: either stops all writes."""
        return max(self.data, self.metadata)


class LogicalVolumes:
    """The volumes of one EXECUTE directory in a volume group."""

    def __init__(self, settings: VolumeSettings, store: Path, tag: str) -> None:
        self._settings = settings
        self._tag = tag
        self._own = not settings.volume_group
        self.group = settings.volume_group or f"slotwise_{tag}"
        self.pool = (settings.thin_pool or "slotwise_pool") if settings.thin else ""
        self.backing = Path(settings.backing_file) if settings.backing_file else store / "backing.img"

    # ---- the group

    def open(self) -> None:
        """Find (or, when none is named, make) the volume group and the thin pool.

        :raises HostError: when this host has no LVM, or not what is named.
        """
        if not installed("lvcreate"):
            raise HostError("LVM is not installed")
        if not has_device_mapper():
            raise HostError("the kernel has no device mapper", path="/dev/mapper/control")
        if not self._there():
            if not self._own:
                raise HostError(f"there is no volume group {self.group}", hint="check LVM_VOLUME_GROUP_NAME")
            self._make_group()
        if self.pool:
            self._open_pool()

    def _there(self) -> bool:
        try:
            run("vgs", "--noheadings", "-o", "vg_name", self.group)
        except HostError:
            return False
        return True

    def _make_group(self) -> None:
        """A volume group on a file of our own; one that is in the file already (the host was restarted) is used."""
        self.backing.parent.mkdir(parents=True, exist_ok=True)
        if not self.backing.exists():
            with open(self.backing, "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.truncate(self._settings.backing_mib << 20)
        device = self._loop() or run("losetup", "-f", "--show", str(self.backing)).strip()
        try:
            if not self._there():
                run("pvcreate", "-q", "-y", device)
                run("vgcreate", "-q", "-y", "-s", _EXTENT, self.group, device)
            run("vgchange", "-q", "-ay", self.group)
        except HostError:
            with contextlib.suppress(HostError):
                run("losetup", "-d", device)
            raise

    def _loop(self) -> str:
        """The loop device that the backing file is on; empty when it is on none."""
        said = run("losetup", "-j", str(self.backing)).splitlines()
        return said[0].partition(":")[0] if said else ""

    def _open_pool(self) -> None:
        try:
            run("lvs", "--noheadings", f"{self.group}/{self.pool}")
        except HostError:
            if not self._own or self._settings.thin_pool:
                raise HostError(
                    f"there is no thin pool {self.group}/{self.pool}", hint="check LVM_THINPOOL_NAME"
                ) from None
            run("lvcreate", "-q", "-y", "--type", "thin-pool", "-l", "90%VG", "-n", self.pool, self.group)
            # A full pool must fail writes at once; waiting for an admin would stop the jobs for a minute each.
            run("lvchange", "-q", "-y", "--errorwhenfull", "y", f"{self.group}/{self.pool}")

    def close(self) -> list[str]:
        """Take a group of our own apart when no volume is left in it; what could not be done, in words."""
        if not self._own or self.names() or not self._there():
            return []
        problems: list[str] = []
        device = self._loop()
        for command in (("vgremove", "-q", "-f", "-y", self.group), ("losetup", "-d", device)):
            try:
                if command[-1]:
                    run(*command)
            except HostError as error:
                problems.append(str(error))
        if not problems:
            self.backing.unlink(missing_ok=True)
        return problems

    # ---- volumes

    def make(self, name: str, size_kib: int) -> str:
        """A new volume of ``size_kib``; the path of its device.

        :raises HostError: when there is no room (in the group, or for more in the thin pool), or LVM fails.
        """
        label = f"{self._tag}_{name}"
        if self.pool:
            use = self.pool_use()
            if use is not None and use.worst >= POOL_FULL_PERCENT:
                raise HostError(f"the thin pool {use.name} is {use.worst:.0f} % full")
            size = f"{size_kib + self._settings.thin_extra_mib * 1024}k"
            run("lvcreate", "-q", "-y", "-V", size, "--thinpool", f"{self.group}/{self.pool}", "-n", label)
        else:
            run("lvcreate", "-q", "-y", "-W", "n", "-L", f"{size_kib}k", "-n", label, self.group)
        return self.device(name)

    def device(self, name: str) -> str:
        """The path of a volume's device."""
        return f"/dev/{self.group}/{self._tag}_{name}"

    def remove(self, name: str) -> list[str]:
        """Remove a volume; returns what could not be done, in words. One that is not there counts as removed."""
        label = f"{self.group}/{self._tag}_{name}"
        deadline = time.monotonic() + _BUSY_PATIENCE_S
        while True:
            try:
                run("lvremove", "-f", "-q", "-y", label)
            except HostError as error:
                if name not in self.names():
                    return []
                if time.monotonic() > deadline:
                    return [str(error)]
                time.sleep(0.1)
            else:
                return []

    def names(self) -> list[str]:
        """Names of the volumes of this EXECUTE that are there now."""
        try:
            said = run("lvs", "--noheadings", "-o", "lv_name", self.group)
        except HostError:
            return []
        return [name.removeprefix(f"{self._tag}_") for name in said.split() if name.startswith(f"{self._tag}_")]

    def pool_use(self) -> PoolUse | None:
        """How full the thin pool is; None without one, or when LVM does not say."""
        if not self.pool:
            return None
        name = f"{self.group}/{self.pool}"
        try:
            said = run("lvs", "--noheadings", "-o", "data_percent,metadata_percent", name).split()
            return PoolUse(name, float(said[0]), float(said[1]))
        except (HostError, IndexError, ValueError):
            return None

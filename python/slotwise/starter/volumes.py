"""A file system of its own for each job's scratch directory, as large as its slot's disk.

With LVM where the host has it (a volume group that is named, or one made on a backing file; thick or thin volumes),
else an ext4 file system in a file. Knobs: STARTD_ENFORCE_DISK_LIMITS, LVM_*. All functions block: call them in threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from slotwise.errors import HostError
from slotwise.starter.report import Disk
from slotwise.starter.settings import VolumeSettings
from slotwise.starter.verdict import OUT_OF_DISK_SUBCODE, OUT_OF_RESOURCES, End, held

_OPTIONS = "nodev,nosuid"
#: Own part of an ext4 file system, so that the job has what its slot promises: a share and a fixed part (KiB).
_OVERHEAD = (0.03, 4096)
#: Name of the volume group that is made when none is named.
_OWN_GROUP = "slotwise"


@dataclass(frozen=True)
class Volume:
    """A mounted scratch file system. ``limit_kib``: use from which on the job is over its share."""

    mount: Path
    limit_kib: int

    def usage(self) -> Disk:
        """What the file system says is used, and its number of files."""
        status = os.statvfs(self.mount)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize // 1024
        return Disk(used, max(0, status.f_files - status.f_ffree - 11))  # 11: what an empty ext4 has

    def is_full(self) -> bool:
        """True when next to nothing more can be written."""
        status = os.statvfs(self.mount)
        return status.f_bavail * status.f_frsize < 64 * 1024


def disk_verdict(disk: Disk, volume: Volume | None, slot_kib: int) -> End | None:
    """Hold (34, 104) when a job takes more disk than its slot has; None while it does not."""
    if volume is None:
        over = disk.kib > slot_kib
    else:
        over = disk.kib >= volume.limit_kib
        with contextlib.suppress(OSError):
            over = over or volume.is_full()
    if not over:
        return None
    text = f"{slot_kib / 1024:.2f} MB" if slot_kib < 1024 * 1024 else f"{slot_kib / 1024 / 1024:.2f} GB"
    reason = f"Job has exceeded allocated disk ({text}). Consider increasing the value of request_disk."
    return held(reason, OUT_OF_RESOURCES, OUT_OF_DISK_SUBCODE)


class Volumes:
    """Makes and removes volumes. ``kind``: lvm, loop, or empty (none can be made; ``problem`` says why)."""

    def __init__(self, settings: VolumeSettings, store: Path) -> None:
        self._settings = settings
        self.store = store
        self._group = settings.volume_group or _OWN_GROUP
        self.kind = ""
        self.problem = ""

    def probe(self, *, root: bool) -> str:
        """Find out by trying what this host can do; returns ``kind``."""
        if not root:
            self.problem = "mounting needs root"
            return ""
        self.store.mkdir(parents=True, exist_ok=True)
        wanted = self._settings.wanted
        problems = [] if wanted == "auto" else [f"SLOTWISE_SCRATCH_VOLUMES is {wanted}"]
        for kind, attempt in (("lvm", self._try_lvm), ("loop", self._try_loop)):
            if wanted not in ("auto", kind):
                continue
            try:
                attempt()
            except (HostError, OSError) as error:
                problems.append(f"{kind}: {error}")
            else:
                self.kind = kind
                return kind
        self.problem = "; ".join(problems)
        return ""

    # ---- for one job

    def make(self, name: str, mount: Path, size_kib: int) -> Volume:
        """A fresh file system of ``size_kib`` for the job, mounted on ``mount``.

        :raises HostError: when the host refuses.
        """
        whole_kib = int(size_kib * (1 + _OVERHEAD[0])) + _OVERHEAD[1]
        try:
            if self.kind == "lvm":
                device = self._make_logical(name, whole_kib)
                _run("mkfs.ext4", "-q", "-F", "-m", "0", device)
                _run("mount", "-o", _OPTIONS, device, str(mount))
            else:
                self._make_loop(name, mount, whole_kib)
        except (HostError, OSError):
            self.remove(name, mount)
            raise
        with contextlib.suppress(OSError):
            mount.joinpath("lost+found").rmdir()
        return self.find(name, mount, size_kib)

    def find(self, _name: str, mount: Path, size_kib: int) -> Volume:
        """The volume that is mounted on ``mount``."""
        margin = 1.0 if self._settings.thin and self.kind == "lvm" else self._settings.thick_margin
        return Volume(mount, int(size_kib * margin))

    def remove(self, name: str, mount: Path) -> list[str]:
        """Unmount and remove a job's volume; what could not be done, in words. One that is not there is no problem."""
        problems: list[str] = []
        if os.path.ismount(mount):
            try:
                _run("umount", str(mount))
            except HostError:
                try:
                    _run("umount", "-l", str(mount))
                except HostError as error:
                    problems.append(str(error))
        if self.kind == "lvm" and Path(f"/dev/{self._group}/{name}").exists():
            try:
                _run("lvremove", "-f", "-q", f"{self._group}/{name}")
            except HostError as error:
                problems.append(str(error))
        try:
            self._image(name).unlink(missing_ok=True)
        except OSError as error:
            problems.append(str(error))
        return problems

    def leftovers(self) -> list[str]:
        """Names of volumes that are there now (after a crash)."""
        found = {path.stem for path in self.store.glob("dir_*.img")} if self.store.is_dir() else set()
        if self.kind == "lvm":
            with contextlib.suppress(HostError):
                names = _run("lvs", "--noheadings", "-o", "lv_name", self._group).split()
                found |= {name for name in names if name.startswith("dir_")}
        return sorted(found)

    # ---- LVM

    def _try_lvm(self) -> None:
        if shutil.which("lvcreate") is None:
            raise HostError("LVM is not installed")
        if not Path("/dev/mapper/control").exists():
            raise HostError("the kernel has no device mapper", path="/dev/mapper/control")
        try:
            _run("vgs", "--noheadings", self._group)
        except HostError:
            if self._settings.volume_group:
                raise
            self._make_group()
        if self._settings.thin:
            self._make_pool()

    def _make_group(self) -> None:
        """A volume group on a file of our own (LVM_BACKING_FILE)."""
        named = self._settings.backing_file
        backing = Path(named) if named else self.store / "backing.img"
        size = self._settings.backing_mib << 20
        if not backing.exists():
            with open(backing, "wb") as file:
                file.truncate(size)
        device = _run("losetup", "-f", "--show", str(backing)).strip()
        _run("pvcreate", "-q", device)
        _run("vgcreate", "-q", self._group, device)

    def _make_pool(self) -> None:
        pool = self._settings.thin_pool or "pool"
        try:
            _run("lvs", "--noheadings", f"{self._group}/{pool}")
        except HostError:
            _run("lvcreate", "-q", "--type", "thin-pool", "-l", "95%VG", "-n", pool, self._group)

    def _make_logical(self, name: str, size_kib: int) -> str:
        if self._settings.thin:
            pool = f"{self._group}/{self._settings.thin_pool or 'pool'}"
            size = f"{size_kib + self._settings.thin_extra_mib * 1024}k"
            _run("lvcreate", "-q", "-y", "-V", size, "--thinpool", pool, "-n", name)
        else:
            _run("lvcreate", "-q", "-y", "-L", f"{size_kib}k", "-n", name, self._group)
        return f"/dev/{self._group}/{name}"

    # ---- files

    def _image(self, name: str) -> Path:
        return self.store / f"{name}.img"

    def _try_loop(self) -> None:
        trial = self.store / f"trial_{os.getpid()}"
        trial.mkdir(exist_ok=True)
        try:
            self._make_loop(trial.name, trial, 8192)
        finally:
            self.remove(trial.name, trial)
            trial.rmdir()

    def _make_loop(self, name: str, mount: Path, size_kib: int) -> None:
        image = self._image(name)
        with open(image, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size_kib * 1024)
        try:
            # No journal: what is in a scratch directory need not survive a crash of the host.
            _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image))
            _run("mount", "-o", f"loop,{_OPTIONS}", str(image), str(mount))
        except HostError:
            image.unlink(missing_ok=True)
            raise


def _run(*command: str) -> str:
    """Run a tool of the host; its output.

    :raises HostError: when it is not there or fails, with what it said.
    """
    path = shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
    if path is None:
        raise HostError(f"{command[0]} is not installed", errno=errno.ENOENT)
    done = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise HostError(f"{' '.join(command)}: {said[-1] if said else f'exit {done.returncode}'}")
    return done.stdout

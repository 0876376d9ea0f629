"""A file system of its own for each job's scratch directory, as large as its slot's disk.

With LVM where the host has it (`lvm`), else an ext4 file system in a file; encrypted where that is wanted
(`encryption`). Knobs: STARTD_ENFORCE_DISK_LIMITS, LVM_*, ENCRYPT_EXECUTE_DIRECTORY.
All functions block: call them in threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from msgspec import Struct

from slotwise.errors import HostError
from slotwise.execution.exit_status import OUT_OF_DISK_SUBCODE, OUT_OF_RESOURCES, SCRATCH_DIR_ERROR, End, held
from slotwise.starter.enforcement.host_programs import run
from slotwise.starter.job.usage import Disk
from slotwise.starter.scratch import encryption
from slotwise.starter.scratch.encryption import DM_CRYPT, FSCRYPT
from slotwise.starter.scratch.lvm import LogicalVolumes, PoolUse
from slotwise.starter.settings import VolumeSettings

_TRIAL = "trial_"
_OPTIONS = "nodev,nosuid"
#: Own part of an ext4 file system, so that the job has what its slot promises: a share and a fixed part (KiB).
_OVERHEAD = (0.03, 4096)
#: No journal: what is in a scratch directory need not survive a crash of the host.
_MAKE = ("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal")


class Volume(Struct, frozen=True):
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


def pool_verdict(use: PoolUse) -> End:
    """A job that failed beside an exhausted thin pool: the machine ran short, not the job, so it goes back to idle."""
    return held(f"The machine's thin pool {use.name} is {use.worst:.0f} % full", SCRATCH_DIR_ERROR)


class Volumes:
    """Makes and removes volumes. ``kind``: lvm, loop, or empty (none can be made; ``problem`` says why)."""

    def __init__(self, settings: VolumeSettings, store: Path) -> None:
        self._settings = settings
        self.store = store
        tag = hashlib.sha256(os.fsencode(store)).hexdigest()[:8]
        self._lvm = LogicalVolumes(settings, store, tag)
        self._prefix = f"slotwise_{tag}_"
        self.kind = ""
        #: How volumes can be encrypted; empty when they cannot, and why.
        self.encryption = ""
        self.no_encryption = "no volume can be made for a job (STARTD_ENFORCE_DISK_LIMITS)"
        self.problem = ""

    def probe(self, *, root: bool) -> str:
        """Find out by trying what this host can do; returns ``kind``."""
        if not root:
            self.problem = "mounting needs root"
            return ""
        self.store.mkdir(parents=True, exist_ok=True)
        wanted = self._settings.wanted
        problems = [] if wanted in ("auto", "lvm", "loop") else [f"SLOTWISE_SCRATCH_VOLUMES is {wanted}"]
        for kind, attempt in (("lvm", self._lvm.open), ("loop", self._try_loop)):
            if wanted not in ("auto", kind):
                continue
            try:
                attempt()
            except (HostError, OSError) as error:
                problems.append(f"{kind}: {error}")
            else:
                self.kind = kind
                break
        self.problem = "; ".join(problems)
        if self.kind:
            self._probe_encryption()
        return self.kind

    def _probe_encryption(self) -> None:
        problems = []
        for way in (DM_CRYPT, FSCRYPT):
            try:
                self._try_image(way)
            except HostError as error:
                problems.append(f"{way}: {error}")
            except OSError as error:
                problems.append(f"{way}: {encryption.refusal(error)}")
            else:
                self.encryption = way
                break
        self.no_encryption = "; ".join(problems) if not self.encryption else ""

    def close(self) -> list[str]:
        """Take apart what was made for all jobs together, if no job needs it; what could not be done, in words."""
        return self._lvm.close() if self.kind == "lvm" else []

    def pool_use(self) -> PoolUse | None:
        """How full the thin pool is; None without one."""
        return self._lvm.pool_use() if self.kind == "lvm" else None

    @property
    def pooled(self) -> bool:
        """True when volumes take their space from a thin pool."""
        return self.kind == "lvm" and bool(self._lvm.pool)

    # ---- for one job

    def make(self, name: str, mount: Path, size_kib: int, *, encrypted: bool = False) -> Volume:
        """A fresh file system of ``size_kib`` for the job, mounted on ``mount``.

        :raises HostError: when the host refuses, or cannot encrypt what is to be ``encrypted``.
        """
        if encrypted and not self.encryption:
            raise HostError(f"this host cannot encrypt scratch directories: {self.no_encryption}")
        whole_kib = int(size_kib * (1 + _OVERHEAD[0])) + _OVERHEAD[1]
        try:
            device = self._lvm.make(name, whole_kib) if self.kind == "lvm" else self._make_image(name, whole_kib)
            self._fill(name, device, mount, self.encryption if encrypted else "")
        except (HostError, OSError):
            self.remove(name, mount)
            raise
        return self._volume(mount, size_kib)

    def _fill(self, name: str, device: str, mount: Path, way: str) -> None:
        """Make the file system in a device or file, and mount it."""
        if way == DM_CRYPT:
            device = encryption.open_device(device, self._prefix + name)
        run(*_MAKE, *(("-O", encryption.FEATURE) if way == FSCRYPT else ()), device)
        self._mount(name, mount)
        with contextlib.suppress(OSError):
            mount.joinpath("lost+found").rmdir()
        if way == FSCRYPT:
            encryption.lock(mount)

    def take_up(self, name: str, mount: Path, size_kib: int) -> Volume:
        """The volume of a run from before a restart; mounted again if no process that saw the mount has survived.

        :raises HostError: when it cannot be mounted.
        """
        if not os.path.ismount(mount):
            self._mount(name, mount)
            if encryption.unlock_is_lost(mount):
                run("umount", str(mount))
                raise HostError("it was encrypted, and its key has gone with its mount")
        return self._volume(mount, size_kib)

    def _volume(self, mount: Path, size_kib: int) -> Volume:
        # A thin volume has room above the job's share, so that the share itself is the limit.
        margin = 1.0 if self.pooled else self._settings.thick_margin
        return Volume(mount, int(size_kib * margin))

    def _mount(self, name: str, mount: Path) -> None:
        encrypted = encryption.device_of(self._prefix + name)
        if encrypted is not None or self.kind == "lvm":
            run("mount", "-o", _OPTIONS, encrypted or self._lvm.device(name), str(mount))
        else:
            run("mount", "-o", f"loop,{_OPTIONS}", str(self._image(name)), str(mount))

    def remove(self, name: str, mount: Path) -> list[str]:
        """Unmount and remove a job's volume; returns what failed. One that is not there counts as removed."""
        problems: list[str] = []
        if os.path.ismount(mount):
            encryption.forget_key(mount)
        while os.path.ismount(mount) and not problems:  # one that encrypts its files is mounted twice
            try:
                run("umount", str(mount))
            except HostError:
                try:
                    run("umount", "-l", str(mount))
                except HostError as error:
                    problems.append(str(error))
        problems += encryption.close_device(self._prefix + name)
        if self.kind == "lvm":
            problems += self._lvm.remove(name)
        try:
            self._image(name).unlink(missing_ok=True)
        except OSError as error:
            problems.append(str(error))
        return problems

    def leftovers(self) -> list[str]:
        """Names of volumes that are there now (after a crash)."""
        found = {path.stem for path in self.store.glob("dir_*.img")} if self.store.is_dir() else set()
        if self.kind == "lvm":
            found |= set(self._lvm.names())
        found |= {label.removeprefix(self._prefix) for label in encryption.open_labels(f"{self._prefix}dir_")}
        return sorted(found)

    def clear_trials(self) -> list[str]:
        """Remove what a starter left that was killed while it tried what the host can do; what could not be removed."""
        problems: list[str] = []
        for name in sorted({path.stem for path in self.store.glob(f"{_TRIAL}*")}):
            place = self.store / name
            try:
                while os.path.ismount(place):
                    run("umount", "-l", str(place))
                problems += encryption.close_device(self._prefix + name)
                self._image(name).unlink(missing_ok=True)
                if place.is_dir():
                    place.rmdir()
            except (HostError, OSError) as error:
                problems.append(str(error))
        return problems

    # ---- files

    def _image(self, name: str) -> Path:
        return self.store / f"{name}.img"

    def _try_loop(self) -> None:
        self._try_image("")

    def _try_image(self, way: str) -> None:
        """Make a small volume in a file, encrypted in this way if in any, and take it away again."""
        trial = self.store / f"{_TRIAL}{os.getpid()}"
        trial.mkdir(exist_ok=True)
        try:
            device = self._make_image(trial.name, 8192)
            if way == DM_CRYPT:
                device = encryption.open_device(device, self._prefix + trial.name)
            run(*_MAKE, *(("-O", encryption.FEATURE) if way == FSCRYPT else ()), device)
            run("mount", "-o", _OPTIONS if way == DM_CRYPT else f"loop,{_OPTIONS}", device, str(trial))
            if way == FSCRYPT:
                encryption.lock(trial)
        finally:
            self._remove_trial(trial)

    def _remove_trial(self, trial: Path) -> None:
        encryption.forget_key(trial)
        while os.path.ismount(trial):
            run("umount", "-l", str(trial))
        encryption.close_device(self._prefix + trial.name)
        self._image(trial.name).unlink(missing_ok=True)
        trial.rmdir()

    def _make_image(self, name: str, size_kib: int) -> str:
        """A file for a file system; its path."""
        image = self._image(name)
        with open(image, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size_kib * 1024)
        return str(image)

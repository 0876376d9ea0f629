"""The sandboxes of jobs whose files were spooled (``submit -spool``): one directory at the access point for each.

All of this runs in worker threads, with the owner's rights. Such a job has its sandbox as Iwd: input is read from
there, and output and the event log are written there until they are fetched. The attributes that were submitted are
kept as ``SUBMIT_...`` (condor_submit manual page, "-spool").
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from slotwise.accounts import Account
from slotwise.classad import ClassAd
from slotwise.daemon.privileges import files_of, give_to_user, root_files
from slotwise.errors import HostError, UsageError
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.user_files.owner_rights import FileOwner, Itself, account, as_owner
from slotwise.transfer import depth, safe_open
from slotwise.transfer.lists import input_list, is_null
from slotwise.transfer.pieces import PIECE

_KEPT = ("Iwd", "Cmd", "In", "Out", "Err", "TransferInput", "TransferOutputRemaps", "x509userproxy")


class Result(Struct, frozen=True):
    """A file or directory that a job left: its path, its name in the sandbox, its mode and its size in bytes."""

    path: str
    name: str
    mode: int
    size: int
    directory: bool = False


class Sandbox(Struct, frozen=True):
    """The sandbox of one job."""

    path: str
    owner: FileOwner
    fallback: str = "nobody"
    #: The permissions of the directory (JOB_SPOOL_PERMISSIONS).
    mode: int = 0o700

    def make(self) -> None:
        """Create the directory, which is its owner's.

        :raises HostError: when that is not possible.
        """
        try:
            for parent in reversed(Path(self.path).parents[:2]):
                if not parent.is_dir():
                    parent.mkdir()
                    parent.chmod(0o711)
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            if self.mode != 0o700:
                self._open_to_others()
            if os.geteuid() == 0 and not isinstance(self.owner, Itself):
                self._give(account(self.owner, self.fallback))
        except OSError as error:
            raise HostError(f"cannot make the directory {self.path}: {error.strerror}") from None

    def _open_to_others(self) -> None:
        """Let others read the directory: the one that was opened, as :meth:`_give` does."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():  # new; its owner has the say later
                os.fchmod(descriptor, self.mode)
        finally:
            os.close(descriptor)

    def _give(self, who: Account) -> None:
        """Give the directory to its owner: the one that was opened, even if another has its name by now."""
        if os.lstat(self.path).st_uid == who.uid:
            return
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with root_files():
                os.fchown(descriptor, who.uid, who.gid)
        finally:
            os.close(descriptor)

    def give_restored(self) -> None:
        """Give all that a restored sandbox has to its owner: an archive does not say whose it is.

        :raises HostError: when that is not possible.
        """
        if isinstance(self.owner, Itself):
            return
        try:
            give_to_user(Path(self.path), account(self.owner, self.fallback))
        except OSError as error:
            raise HostError(f"cannot give {self.path} to its owner: {error.strerror}", path=self.path) from None

    def write(self, name: str, mode: int, data: bytes, offset: int, *, directory: bool) -> None:
        """Write a piece of a spooled file.

        :raises UsageError: for a name that leads out of the directory.
        :raises HostError: when it cannot be written.
        """
        target = self._inside(name)
        try:
            with as_owner(self.owner, self.fallback):
                if directory:
                    os.makedirs(target, mode=0o700, exist_ok=True)
                    return
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if offset == 0 else 0)
                descriptor = safe_open.regular(target, flags)
                try:
                    while data:
                        written = os.pwrite(descriptor, data, offset)
                        data, offset = data[written:], offset + written
                    os.fchmod(descriptor, (mode & 0o777) | 0o600)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise HostError(f"cannot write {target}: {error.strerror}") from None

    def _inside(self, name: str) -> str:
        plain = os.path.normpath(name)
        if os.path.isabs(plain) or plain == ".." or plain.startswith("../"):
            raise UsageError(f"a spooled file may not be called {name!r}")
        if depth.is_too_deep(plain):
            raise UsageError(f"the file name {name[:100]!r}... is {depth.TOO_DEEP}")
        return os.path.join(self.path, plain)

    def results(self, inputs: Sequence[str], since: float) -> list[Result]:
        """All files but unchanged input; input that changed after ``since`` counts as output."""
        sent = {os.path.normpath(name) for name in inputs}
        found = []
        with as_owner(self.owner, self.fallback):
            for directory, subdirectories, files in os.walk(self.path):
                subdirectories.sort()
                top = os.path.relpath(directory, self.path)
                if top != "." and top.partition("/")[0] not in sent:
                    found.append(Result(directory, top, stat.S_IMODE(os.lstat(directory).st_mode), 0, True))
                for file in sorted(files):
                    path = os.path.join(directory, file)
                    name = os.path.relpath(path, self.path)
                    state = os.lstat(path)
                    is_input = name in sent or name.partition("/")[0] in sent
                    if stat.S_ISREG(state.st_mode) and not (is_input and state.st_mtime <= since):
                        found.append(Result(path, name, stat.S_IMODE(state.st_mode), state.st_size))
        return found

    def read(self, result: Result, offset: int) -> bytes:
        """Read a piece of a file.

        :raises HostError: when it cannot be read.
        """
        try:
            with as_owner(self.owner, self.fallback), open(safe_open.regular(result.path), "rb") as stream:
                stream.seek(offset)
                return stream.read(PIECE)
        except OSError as error:
            raise HostError(f"cannot read {result.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the directory with its contents."""
        with contextlib.suppress(OSError):
            about = os.lstat(self.path)
            with files_of(about.st_uid, about.st_gid):
                shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


def relocated(ad: ClassAd, directory: str, now: int) -> Changes:
    """The changes of a job whose files are in the sandbox ``directory``: names without directories, old ones kept."""

    def text(name: str) -> str:
        value = ad.get(name)
        return value if isinstance(value, str) else ""

    changes: Changes = {f"SUBMIT_{name}": text(name) for name in _KEPT if text(name)}
    changes |= {"Iwd": directory, "StageInFinish": now, "TransferOutputRemaps": None}
    if ad.get("TransferExecutable", True) is not False:
        changes["Cmd"] = os.path.basename(text("Cmd"))
    for name in ("In", "Out", "Err"):
        if not is_null(text(name)):
            changes[name] = os.path.basename(text(name))
    if names := spooled_names(ad):
        changes["TransferInput"] = ",".join(names)
        changes |= dict.fromkeys(name for name in ("CommonInputFiles", "CommonInputCatalogs") if text(name))
    if text("x509userproxy"):
        changes["x509userproxy"] = os.path.join(directory, os.path.basename(text("x509userproxy")))
    if text("SUBMIT_UserLog"):
        changes["UserLog"] = os.path.join(directory, os.path.basename(text("SUBMIT_UserLog")))
    if text("ShouldTransferFiles").upper() != "YES":
        changes["ShouldTransferFiles"] = "YES"
    return changes


def spooled_names(ad: ClassAd) -> list[str]:
    """The names in the sandbox of files in a transfer list; ``directory/`` (its contents) keeps its slash."""
    names = input_list(lambda name: ad.get(f"SUBMIT_{name}") or ad.get(name))
    return [name if "://" in name else os.path.basename(name.rstrip("/")) + "/" * name.endswith("/") for name in names]


def inputs_of(ad: ClassAd) -> list[str]:
    """The names of all spooled files of the job."""
    names = [name.rstrip("/") for name in spooled_names(ad) if "://" not in name]
    for attribute in ("Cmd", "In"):
        value = ad.get(attribute)
        if isinstance(value, str) and not os.path.isabs(value) and not is_null(value):
            names.append(value)
    proxy = ad.get("x509userproxy")
    return [*names, os.path.basename(proxy)] if isinstance(proxy, str) else names

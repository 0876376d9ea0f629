"""The files of credentials: ``SEC_CREDENTIAL_DIRECTORY_OAUTH/USER/``, laid out as HTCondor's.

``NAME.top`` is what a token is made with (a refresh token, or a mark that the access point signs it), ``NAME.use`` the
token that jobs get. Users never reach the directory: it is the daemons' account's with mode 0700, its files 0600. All
methods block, and raise OSError when a file system refuses.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from slotwise import whole_file
from slotwise.daemon import privileges
from slotwise.errors import DeniedError, HostError, NotFoundError
from slotwise.model.credential_names import USE, CredentialName

#: The largest credential, bytes; and the most files that one user may have.
LARGEST, _FILES_MOST = 65536, 200
TOP = ".top"
#: When a job of the user was last seen in the queue: its modification time.
_LAST_JOB = ".last_job"
_USER = re.compile(r"[A-Za-z0-9_+=-][A-Za-z0-9_.+=-]*(@[A-Za-z0-9_.-]+)?")


class StoredFile(Struct, frozen=True):
    """A file of a credential: its content, and when it was written (seconds since the epoch)."""

    data: bytes
    at: float


class CredentialStore:
    """The directory of credentials.

    :param directory: is made when the first credential is stored.
    :param trusted: a group may have rights on it (TRUST_CREDENTIAL_DIRECTORY).
    """

    def __init__(self, directory: Path, *, trusted: bool) -> None:
        self._directory = directory
        self._trusted = trusted

    def check(self) -> None:
        """Check that nobody else reaches the directory, where there is one.

        :raises HostError: when somebody does.
        """
        if self._directory.exists():
            self._check(self._directory)

    # ---- credentials

    def read(self, user: str, name: CredentialName, ending: str) -> StoredFile | None:
        """A file of a credential; None when there is none."""
        try:
            descriptor = os.open(
                self._place(user) / f"{name.stem}{ending}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                return None
            return StoredFile(file.read(LARGEST), about.st_mtime)

    def write(self, user: str, name: CredentialName, ending: str, data: bytes, at: float) -> None:
        """Put a file in place, whole at any moment; ``at`` is the present.

        :raises DeniedError: when it is too large, or the user has too many.
        :raises HostError: when others could read it there.
        """
        if len(data) > LARGEST:
            raise DeniedError(f"the credential has {len(data)} bytes", hint=f"at most {LARGEST}")
        self._make()
        place = self._place(user)
        place.mkdir(mode=0o700, exist_ok=True)
        self._check(place)
        path = place / f"{name.stem}{ending}"
        if not path.exists() and len(os.listdir(place)) >= _FILES_MOST:
            raise DeniedError(f"{user} has {_FILES_MOST} files of credentials", hint="remove some")
        with whole_file.replaced(path, 0o600) as file:
            file.write(data)
            file.flush()
            os.utime(file.fileno(), (at, at))

    def has(self, user: str, name: CredentialName) -> bool:
        """Whether the token of a credential is there; cheap enough to be asked at each submission."""
        return os.path.exists(f"{self._directory}/{user}/{name.stem}{USE}")

    def remove(self, user: str, name: CredentialName) -> bool:
        """Remove a credential; whether there was one."""
        found = False
        for ending in (TOP, USE):
            with contextlib.suppress(FileNotFoundError):
                (self._place(user) / f"{name.stem}{ending}").unlink()
                found = True
        return found

    def files(self, user: str) -> dict[str, float]:
        """The names of a user's files, and when each was written."""
        try:
            with os.scandir(self._place(user)) as entries:
                found = [
                    entry for entry in entries if entry.name.endswith((TOP, USE)) and not entry.name.startswith(".")
                ]
                return {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in found}
        except FileNotFoundError:
            return {}

    # ---- users

    def users(self) -> list[str]:
        """The users who have credentials."""
        try:
            with os.scandir(self._directory) as entries:
                return sorted(
                    one.name for one in entries if _USER.fullmatch(one.name) and one.is_dir(follow_symlinks=False)
                )
        except FileNotFoundError:
            return []

    def remove_all(self, user: str) -> None:
        """Remove all that a user has."""
        place = self._place(user)
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(place):
                (place / name).unlink(missing_ok=True)
            place.rmdir()

    def note_jobs(self, user: str, at: float) -> None:
        """Write down that the user had jobs at that time."""
        mark = self._place(user) / _LAST_JOB
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.utime(mark, (at, at))

    def forget_jobs(self, user: str) -> None:
        """The user has an interest in the credentials beyond the jobs there were."""
        (self._place(user) / _LAST_JOB).unlink(missing_ok=True)

    def last_jobs(self, user: str) -> float | None:
        """When the user had jobs last; None when that was never written down."""
        try:
            return (self._place(user) / _LAST_JOB).stat().st_mtime
        except FileNotFoundError:
            return None

    # ---- places

    def _place(self, user: str) -> Path:
        if not _USER.fullmatch(user):
            raise NotFoundError(f"{user!r} cannot have credentials", hint="its name cannot be that of a directory")
        return self._directory / user

    def _make(self) -> None:
        if not self._directory.is_dir():
            with privileges.root_files():
                self._directory.mkdir(mode=0o700, exist_ok=True)
                if (who := privileges.account()) is not None:
                    privileges.give(self._directory, who)
        self._check(self._directory)

    def _check(self, place: Path) -> None:
        """:raises HostError: when somebody else may read or replace what is in a directory."""
        about = place.stat(follow_symlinks=False)
        who = privileges.account()
        owners = {0, os.geteuid(), *(() if who is None else (who.uid,))}
        others = 0o007 if self._trusted else 0o077
        if not stat.S_ISDIR(about.st_mode) or about.st_uid not in owners or about.st_mode & others:
            hint = "chmod 0700, and chown to the daemons' account (a group's rights: TRUST_CREDENTIAL_DIRECTORY)"
            raise HostError(f"{place} is not a directory for the daemons alone: no credential is put there", hint=hint)

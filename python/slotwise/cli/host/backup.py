"""``slotwise backup`` and ``slotwise restore``: the state of a pool's host in one file.

What a host cannot do without: the job queue with its history, accounting, journals and spooled files (SPOOL), keys and
tokens, and the configuration that was set from afar. Databases are copied as of one moment each while their daemons
write to them (SQLite's online backup). Logs and scratch directories of running jobs are not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import sqlite3
import stat
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn
from urllib.parse import quote

from msgspec import Struct

from slotwise import __version__
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import HelpFormatter
from slotwise.daemon import lock, privileges
from slotwise.daemon.registry import DAEMONS
from slotwise.errors import HostError, UsageError
from slotwise.home import PoolHome

BACKUP = """Copies the state of this host's pool into a file, while it runs: job queue and history, accounting,
journals, spooled files, keys and tokens. Keep the file as safe as the pool: it has its private keys."""
RESTORE = """Puts a backup into the pool's directory, which must have no state of its own; the pool must be down. The
files are the daemons', and those sent with jobs their owners' once the schedd starts, whoever had them in the backup.
Jobs that ran when the backup was made are looked for at their execution points when the schedd starts."""
#: The parts of the home that a backup has.
_PARTS = ("config.d", "sandboxes", "secrets", "spool", "tls")
_MANIFEST = "slotwise-backup.json"
_FORMAT = 1
_SQLITE = b"SQLite format 3\0"
#: The permissions that files of a backup may have: nobody but the daemons writes to what is theirs, nobody but they
#: reads their keys, and users decide about their own files; but no bits that make programs another's.
_OWN_MODES = 0o755
_MODES = {"secrets": 0o700, "sandboxes": 0o777}
#: What SQLite keeps beside a database: it is in the copy of the database.
_BESIDE = ("-wal", "-shm", "-journal")


class Manifest(Struct, frozen=True):
    """What a backup says of itself. ``made_at``: epoch seconds."""

    made_at: float
    version: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")


def backup_parser() -> argparse.ArgumentParser:
    """The options of ``backup``."""
    made = _Parser(prog="slotwise backup", description=BACKUP, add_help=False, formatter_class=HelpFormatter)
    made.add_argument("file", nargs="?", help="the file to write, a .tar.gz; it must not exist")
    made.add_argument("--json", "-json", action="store_true", help="print the file and its size as JSON")
    made.add_argument("--help", "-help", "-h", action="store_true", help="show this text")
    return made


def restore_parser() -> argparse.ArgumentParser:
    """The options of ``restore``."""
    made = _Parser(prog="slotwise restore", description=RESTORE, add_help=False, formatter_class=HelpFormatter)
    made.add_argument("file", nargs="?", help="a file that `slotwise backup` has written")
    made.add_argument("--help", "-help", "-h", action="store_true", help="show this text")
    return made


def backup(args: list[str], inv: Invocation) -> int:
    """Write a backup."""
    asked = backup_parser().parse_args(args)
    if asked.help:
        inv.out(backup_parser().format_help())
        return 0
    if not asked.file:
        raise UsageError("which file?", hint="slotwise backup FILE.tar.gz")
    home, target = inv.home_of(inv.knobs()), inv.cwd / asked.file
    if not home.spool.is_dir():
        raise HostError(f"{home.root} has no pool", hint="SLOTWISE_HOME names another directory", path=str(home.root))
    count = write(home, target, time.time())
    if asked.json:
        inv.out(json.dumps({"File": str(target), "Files": count, "Bytes": target.stat().st_size}))
        return 0
    inv.out(f"{target}: {count} files of {home.root}, {target.stat().st_size} bytes")
    return 0


def restore(args: list[str], inv: Invocation) -> int:
    """Put a backup back."""
    asked = restore_parser().parse_args(args)
    if asked.help:
        inv.out(restore_parser().format_help())
        return 0
    if not asked.file:
        raise UsageError("which file?", hint="slotwise restore FILE.tar.gz")
    home = inv.home_of(inv.knobs())
    if running := [name for name in DAEMONS if lock.holder(home, name) is not None]:
        raise HostError(f"the pool in {home.root} runs: {', '.join(running)}", hint="stop it: `slotwise down`")
    count, manifest = read(inv.cwd / asked.file, home)
    if home.named_spool and os.geteuid() == 0:
        # What is below the home they give to their account at their start; a directory elsewhere has to be theirs.
        home.create()
        account, _ = privileges.choose("schedd", home, inv.knobs(), inv.env)
        if account is not None:
            privileges.give(home.spool.resolve(), account)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.made_at))
    inv.out(f"{count} files of {when} are in {home.root}; `slotwise up` starts the pool")
    inv.out(
        "Start it only when the pool that was copied is down: then it reconnects to the jobs that ran. While that pool"
    )
    inv.out("is up they stay there, and run a second time here once their leases end.")
    return 0


def write(home: PoolHome, target: Path, now: float) -> int:
    """Write the state of ``home`` to ``target``; returns the number of files.

    :raises HostError: when the target is there, or a file cannot be read or written.
    """
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise HostError(f"{target} is there already", hint="name another file", path=str(target)) from None
    except OSError as error:
        raise HostError(f"cannot write {target}: {error.strerror}", path=str(target)) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
                count = _add_all(archive, home, now)
            stream.flush()
            os.fsync(stream.fileno())
        return count
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise HostError(f"the backup failed: a database cannot be read: {error}", path=str(target)) from None
    except OSError as error:
        target.unlink(missing_ok=True)
        where = error.filename or target
        raise HostError(f"the backup failed at {where}: {error.strerror or error}", path=str(where)) from None
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _add_all(archive: tarfile.TarFile, home: PoolHome, now: float) -> int:
    manifest = {"format": _FORMAT, "version": __version__, "made_at": now, "home": str(home.root)}
    text = json.dumps(manifest).encode()
    head = tarfile.TarInfo(_MANIFEST)
    head.size, head.mtime = len(text), int(now)
    archive.addfile(head, io.BytesIO(text))
    count = 0
    for part in _PARTS:
        top, sandboxes = _place(home, part), _place(home, "sandboxes")
        for path in _state(top):
            if part != "sandboxes" and path.is_relative_to(sandboxes):
                continue  # a part of its own, which may lie in SPOOL
            name = (PurePosixPath(part) / path.relative_to(top)).as_posix()
            with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
                count += _add(archive, path, name)
    return count


def _place(home: PoolHome, part: str) -> Path:
    """Where a part of the backup is in ``home``: the spool is where SPOOL says, which may be a link."""
    spool = home.spool.resolve() if home.named_spool else home.spool
    sandboxes = spool / "sandboxes" if home.named_spool else home.sandboxes
    return {"spool": spool, "sandboxes": sandboxes}.get(part, home.root / part)


def _state(top: Path) -> Iterator[Path]:
    """Directories and files at and below ``top``, each before what is in it; links and sockets are no state."""
    if not top.is_dir() or top.is_symlink():
        return
    yield top
    for directory, names, files in os.walk(top):
        for name in sorted(names):
            yield Path(directory, name)
        for name in sorted(files):
            path = Path(directory, name)
            if stat.S_ISREG(path.lstat().st_mode) and not name.endswith(_BESIDE):
                yield path


def _add(archive: tarfile.TarFile, path: Path, name: str) -> int:
    if path.is_symlink():
        return 0
    if path.is_dir():
        archive.add(path, name, recursive=False)
        return 0
    if not _is_database(path, name):
        archive.add(path, name, recursive=False)
        return 1
    with tempfile.TemporaryDirectory(prefix="slotwise-backup-") as directory:
        copy = Path(directory, "copy")
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=60)) as source,
            contextlib.closing(sqlite3.connect(copy)) as into,
        ):
            source.backup(into)
        about = path.stat()
        copy.chmod(stat.S_IMODE(about.st_mode))
        if os.geteuid() == 0:
            os.chown(copy, about.st_uid, about.st_gid)
        archive.add(copy, name, recursive=False)
    return 1


def _is_database(path: Path, name: str) -> bool:
    """Whether a file is a daemon's database: those lie at the top of a part. Below are files of users, as they are."""
    with path.open("rb") as stream:
        return name.count("/") == 1 and stream.read(len(_SQLITE)) == _SQLITE


def read(source: Path, home: PoolHome) -> tuple[int, Manifest]:
    """Put the backup ``source`` into ``home``; returns the number of files, and what the backup says of itself.

    Whose the files are is decided here, not by the archive, which may be of another host or of an account of this one:
    all of them are the restorer's. Daemons of root give them to their account, and the schedd those that came with jobs
    to the owners that its queue names (:attr:`PoolHome.restored`).

    :raises HostError: when it is not a backup, or the home has state of its own.
    """
    for part in _PARTS:
        place = _place(home, part)
        if place.is_dir() and any(one != _place(home, "sandboxes") for one in place.iterdir()):
            hint = "move it away, or name another directory with SLOTWISE_HOME"
            raise HostError(f"{place} is not empty", hint=hint, path=str(place))
    mask = os.umask(0o077)
    try:
        with tarfile.open(source, "r:gz") as archive:
            manifest = _manifest(archive, source)
            members = [_checked(member, source) for member in archive if member.name != _MANIFEST]
            # They are what is extracted, on every Python: before 3.11.4 there are no filters, and from 3.14 on one that
            # takes files from their owners unless another is named.
            archive.extraction_filter = _unchanged
            os.umask(mask)
            home.make_root()
            os.umask(0o077)
            # Directories last: they are made closed, and opened when all is there.
            for member in sorted(members, key=lambda one: one.isdir()):
                part, *rest = PurePosixPath(member.name).parts
                below = copy.copy(member)
                below.name = str(PurePosixPath(*rest))
                below.uid, below.gid, below.uname, below.gname = os.geteuid(), os.getegid(), "", ""
                below.mode &= _MODES.get(part, _OWN_MODES)
                archive.extract(below, _place(home, part), numeric_owner=True)
            if os.geteuid() == 0:
                home.spool.mkdir(mode=0o711 if home.named_spool else 0o700, parents=True, exist_ok=True)
                home.restored.touch(mode=0o600)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise HostError(f"cannot restore {source}: {error}", path=str(source)) from None
    finally:
        os.umask(mask)
    return sum(member.isreg() for member in members), manifest


def _unchanged(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo:
    return member


def _manifest(archive: tarfile.TarFile, source: Path) -> Manifest:
    head = archive.next()
    stream = archive.extractfile(head) if head is not None and head.name == _MANIFEST and head.isreg() else None
    try:
        found = json.loads(stream.read(65536)) if stream is not None else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("made_at"), int | float):
        raise HostError(f"{source} is not a backup of a pool", hint="`slotwise backup` writes one", path=str(source))
    if found.get("format") != _FORMAT:
        raise HostError(
            f"{source} is a backup of format {found.get('format')}, of version {found.get('version')}",
            hint="restore it with that version",
            path=str(source),
        )
    return Manifest(float(found["made_at"]), str(found.get("version")))


def _checked(member: tarfile.TarInfo, source: Path) -> tarfile.TarInfo:
    """A member, which is a plain file or a directory of one of the parts.

    :raises HostError: when it is not.
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or name.parts[:1] not in [(part,) for part in _PARTS]:
        raise HostError(f"{source} has {member.name!r}, which no backup has", path=str(source))
    if not (member.isreg() or member.isdir()):
        raise HostError(f"{source}: {member.name!r} is neither a file nor a directory", path=str(source))
    return member

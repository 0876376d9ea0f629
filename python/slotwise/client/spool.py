"""Sends the input files of jobs along with their submission (``submit -spool``), and fetches what they left."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.errors import SubmitError
from slotwise.submit import Submission
from slotwise.table import pack_ads, unpack_ads
from slotwise.transfer.lists import input_list, is_null, parse_remaps
from slotwise.transfer.pieces import pieces
from slotwise.wire.gen import schedd_pb2


@dataclass(frozen=True)
class Progress:
    """How far a transfer is: files that are whole, bytes, and the name of the file that is under way."""

    files: int
    bytes: int
    name: str


#: Is told of each piece of a file.
Tell = Callable[[Progress], None]


class Meter:
    """Counts the pieces of files, and tells of each."""

    def __init__(self, tell: Tell | None) -> None:
        self._tell = tell
        self._files = self._bytes = 0

    def count(self, piece: schedd_pb2.FilePiece) -> None:
        """A piece has come, or goes."""
        self._bytes += len(piece.data)
        self._files += piece.last and not piece.directory
        if self._tell is not None:
            self._tell(Progress(self._files, self._bytes, os.fsdecode(piece.name)))


@dataclass(frozen=True)
class Source:
    """A file or directory to send: its path here, and its directory in the sandbox."""

    path: str
    below: str = ""
    executable: bool = False


def sources(ad: ClassAd) -> list[Source]:
    """Everything that a job needs sent."""

    def text(name: str) -> str:
        value = ad.get(name)
        return value if isinstance(value, str) else ""

    iwd = text("Iwd")
    keeps_paths = ad.get("PreserveRelativePaths") is True
    found = []
    if ad.get("TransferExecutable", True) is not False and text("Cmd"):
        found.append(Source(posixpath.join(iwd, text("Cmd")), executable=True))
    if not is_null(text("In")) and ad.get("TransferIn", True) is not False:
        found.append(Source(posixpath.join(iwd, text("In"))))
    if text("x509userproxy"):
        found.append(Source(posixpath.join(iwd, text("x509userproxy"))))
    for name in input_list(text):
        if "://" in name:
            continue
        below = posixpath.dirname(posixpath.normpath(name)) if keeps_paths and not posixpath.isabs(name) else ""
        found.append(Source(posixpath.join(iwd, name.rstrip("/")), below))
    return found


def spooled_jobs(submission: Submission, firsts: Iterable[tuple[int, int]]) -> Iterator[tuple[str, ClassAd]]:
    """The jobs of a submission with their ids; ``firsts``: each cluster's id, and the number of its first job."""
    for cluster, (cluster_id, first) in zip(submission.clusters, firsts, strict=True):
        for proc in range(cluster.count):
            yield f"{cluster_id}.{first + proc}", cluster.job(proc)


def parts(jobs: Iterable[tuple[str, ClassAd]]) -> Iterator[schedd_pb2.SpoolPart]:
    """The files of jobs (id, ad), each once however many jobs want it; then the commit.

    :raises SubmitError: names a file that cannot be read.
    """
    wanted: dict[Source, list[str]] = {}
    ids = []
    for name, ad in jobs:
        ids.append(name)
        for source in sources(ad):
            wanted.setdefault(source, []).append(name)
    for source, names in wanted.items():
        try:
            for piece in pieces(source.path, posixpath.basename(source.path), executable=source.executable):
                part = schedd_pb2.SpoolPart(jobs=names)
                part.file.name = os.fsencode(posixpath.join(source.below, piece.name))
                part.file.mode, part.file.data, part.file.offset = piece.mode, piece.data, piece.offset
                part.file.last, part.file.directory = piece.last, piece.directory
                yield part
        except OSError as error:
            raise SubmitError(
                f"cannot spool {source.path}: reading from file {error.filename or source.path}: "
                f"(errno {error.errno or 0}) {error.strerror or error}"
            ) from None
    yield schedd_pb2.SpoolPart(jobs=ids, commit=True)


class Outgoing:
    """The parts of jobs' files on their way. A file that cannot be read ends them before the commit; ``error`` then."""

    def __init__(self, jobs: Iterable[tuple[str, ClassAd]], tell: Tell | None) -> None:
        self._parts = parts(jobs)
        self._meter = Meter(tell)
        self.error: SubmitError | None = None

    def __iter__(self) -> Iterator[schedd_pb2.SpoolPart]:
        try:
            for part in self._parts:
                if not part.commit:
                    self._meter.count(part.file)
                yield part
        except SubmitError as error:
            self.error = error


def check(jobs: Iterable[ClassAd]) -> None:
    """See that everything to send is there, before anything is queued.

    :raises SubmitError: names the first file that is not.
    """
    seen: set[Source] = set()
    for ad in jobs:
        for source in sources(ad):
            if source not in seen:
                seen.add(source)
                if not os.access(source.path, os.R_OK):
                    raise SubmitError(f"cannot read {source.path}, which is to be spooled", hint="nothing was queued")


def without_log(pack: bytes) -> bytes:
    """The ads of a pack with their event log set aside: it begins at the access point, when the files are there."""
    if not pack:
        return pack
    ads = unpack_ads(pack)
    for ad in ads:
        if "UserLog" in ad:
            ad["SUBMIT_UserLog"] = ad.pop("UserLog")
    return pack_ads(ads)


# ---- back


class Arrivals:
    """Puts the files of one job where it was submitted, or into ``directory``."""

    def __init__(self, ad: ClassAd, directory: Path | None) -> None:
        self._ad = ad
        self.root = directory or Path(self._text("SUBMIT_Iwd") or ".")
        remaps = parse_remaps(self._text("SUBMIT_TransferOutputRemaps"))
        self._log = posixpath.basename(self._text("SUBMIT_UserLog"))
        self._places = {
            name: self.root / target
            for name, target in remaps.items()
            if "://" not in target and not (directory is not None and _leads_out(target))
        }
        if directory is None:
            for attribute in ("Out", "Err", "UserLog"):
                original = self._text(f"SUBMIT_{attribute}")
                if original and not is_null(original):
                    self._places.setdefault(posixpath.basename(original), self.root / original)
        self.count = 0

    def _text(self, name: str) -> str:
        value = self._ad.get(name)
        return value if isinstance(value, str) else ""

    def take(self, piece: schedd_pb2.FilePiece) -> Path:
        """Write a piece; a file is under its own name only when it is whole."""
        name = posixpath.normpath(os.fsdecode(piece.name))
        target = self._places.get(name, self.root / name)
        if _leads_out(name) or (not piece.directory and os.path.normpath(target) == os.path.normpath(self.root)):
            raise SubmitError(
                f"the access point sent a file called {piece.name!r}, which has no place below {self.root}",
                hint="nothing of it was written",
            )
        temporary = target.with_name(target.name + ".sw-part")
        try:
            if piece.directory:
                if not target.is_dir():
                    target.mkdir(parents=True)
                    target.chmod((piece.mode & 0o777) | 0o700)
                return target
            target.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("r+b" if piece.offset else "wb") as stream:
                stream.seek(piece.offset)
                stream.write(piece.data)
            if piece.last:
                if name == self._log and target.exists():
                    _append_log(temporary, target)
                else:
                    temporary.chmod(piece.mode & 0o777)
                    temporary.rename(target)
                self.count += 1
        except OSError as error:
            raise SubmitError(f"cannot write {target}: {error.strerror}") from None
        return target


def arrive(piece: schedd_pb2.SandboxPiece, arrivals: dict[str, Arrivals], directory: Path | None) -> None:
    """Take a piece of a sandbox: its job's ad, with which the job's arrivals begin, or part of a file."""
    if piece.ad:
        arrivals[piece.job] = Arrivals(unpack_ads(piece.ad)[0], directory)
    else:
        arrivals[piece.job].take(piece.file)


def _leads_out(name: str) -> bool:
    """Whether a relative name leads out of the directory that it is used in, or is not a relative one."""
    plain = posixpath.normpath(name)
    return posixpath.isabs(plain) or plain == ".." or plain.startswith("../")


def _append_log(part: Path, log: Path) -> None:
    """Add one job's entries to a log that several jobs share, unless they are in it already."""
    text = part.read_text(errors="replace")
    if text not in log.read_text(errors="replace"):
        with log.open("a") as stream:
            stream.write(text)
    part.unlink()

"""``slotwise gather-info``: what somebody who helps wants to see of a host and of a job (condor_gather_info's page)."""

from __future__ import annotations

import getpass
import io
import os
import platform
import re
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from slotwise.classad import ClassAd, parse_ads
from slotwise.cli.common import written_file
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.errors import UsageError
from slotwise.observe.log import open_log
from slotwise.transfer import safe_open

USAGE = """usage: slotwise gather-info [-jobid CLUSTER.PROC] [-scratch DIR] [-schedd NAME] [-pool HOST:PORT]
  Writes condor-profile.txt: this host, its processes, disks and network, and the configuration. With -jobid an archive,
  cgi-USER-jidID-DATE.tar.gz: that, and the job's ad, analysis, event log and the daemons' logs of this host.
  Look through what you give away: a job's ad has its environment, and the list of processes their arguments.
  -scratch DIR          where that is put together (a directory of its own in /tmp)
  -sdate, -edate DATE   are taken and change nothing, as in HTCondor"""
_OPTIONS = [
    Option("help", 3),
    *(Option(name, 3, 1) for name in ("jobid", "scratch", "sdate", "edate", "pool")),
    Option("schedd", 3, 1),
]
#: Programs of the system that say something of the host; those that are not there are left out.
_PROGRAMS = (
    ("ps auxww --forest", ("ps", "auxww", "--forest")),
    ("df -h", ("df", "-h")),
    ("uptime", ("uptime",)),
    ("free", ("free",)),
    ("ip address", ("ip", "address")),
)
_FILES = ("/etc/os-release", "/etc/debian_version", "/etc/redhat-release", "/etc/hosts", "/etc/nsswitch.conf")
_LOGS = ("MasterLog", "SchedLog", "StartLog", "StarterLog", "NegotiatorLog", "CollectorLog")
_PATIENCE_S = 30
#: Of each log the end, in bytes.
_MOST = 20 * 1024 * 1024


def main(args: list[str], inv: Invocation) -> int:
    """Gather information."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"unrecognized arguments: {' '.join(parsed.words)}")
    job = parsed.value("jobid")
    if job is None:
        inv.out("Gathering Condor and machine information...")
        _write(inv.path("condor-profile.txt"), profile(inv, args))
        inv.out("Information is in condor-profile.txt")
        return 0
    if not re.fullmatch(r"\d+\.\d+", job):
        raise UsageError(f"{job!r} is not a job id", hint="-jobid CLUSTER.PROC")
    name = f"cgi-{_user()}-jid{job}-{time.strftime('%Y-%m-%d-%I_%M_%S%p-%Z')}"
    scratch = inv.path(parsed.value("scratch") or "/tmp") / f"cgi-{os.getpid()}"
    scratch.mkdir(mode=0o700, parents=True)  # a new one: /tmp is everybody's
    try:
        place = scratch / name
        place.mkdir()
        _gather(job, place, args, inv.aimed(parsed.value("pool"), parsed.value("schedd")))
        target = inv.path(f"{name}.tar.gz")
        inv.out(f"\nCreating output file with all results in {target.name}")
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            archive.add(place, arcname=name)
    finally:
        shutil.rmtree(scratch)
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def _write(path: Path, text: str) -> None:
    """Write a file for this user alone; one of that name, whoever's, is replaced."""
    written_file.write(path, text, 0o600)


def profile(inv: Invocation, args: Sequence[str]) -> str:
    """This host, as text with headings."""
    parts = []
    for title, text in _facts(inv, args):
        rule = "#" * (len(title) + 4)
        parts.append(f"{rule}\n# {title} #\n{rule}\n{text.rstrip()}\n")
    return "".join(parts)


def _facts(inv: Invocation, args: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "User who created this report", _user()
    yield "Script invocation and on what machine was it run", f"gather-info {' '.join(args)}\n{socket.gethostname()}"
    yield "Date of Report Creation", time.strftime("%a %b %d %H:%M:%S %Z %Y")
    yield "uname -a", " ".join(platform.uname())
    for file in _FILES:
        path = Path(file)
        if path.is_file():
            yield file, path.read_text(errors="replace")
    for title, words in _PROGRAMS:
        if shutil.which(words[0]):
            yield title, _said_by(words)
    knobs = inv.knobs()
    yield "Condor log dir contents", _names_in(Path(knobs.get("LOG") or inv.home.log))
    for title, command in (
        ("Condor Version", ["condor_version"]),
        ("Location of Condor Config Files", ["condor_config_val", "-config"]),
        ("Condor Config Variables", ["condor_config_val", "-verbose", "-dump"]),
        ("Daemons", ["ping"]),
    ):
        yield title, _said(command, inv)


def _names_in(directory: Path) -> str:
    try:
        return "\n".join(sorted(path.name for path in directory.iterdir()))
    except OSError as error:
        return f"cannot read {directory}: {error.strerror}"


def _said_by(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr


def _said(command: list[str], inv: Invocation) -> str:
    """What a command of ours prints."""
    from slotwise.cli.main import dispatch

    out = io.StringIO()
    dispatch(command, replace(inv, stdout=out, stderr=out, is_terminal=False))
    return out.getvalue()


def _gather(job: str, place: Path, args: Sequence[str], inv: Invocation) -> None:
    inv.out("Gathering Condor and machine information...")
    _write(place / "condor-profile.txt", profile(inv, args))
    of_job = place / job
    of_job.mkdir()
    inv.out(f"acquire_job_q: Getting job q for job {job}")
    _write(of_job / "job_q", _said(["q", "-allusers", "-nobatch", job], inv))
    inv.out(f"acquire_job_ad: Getting job ad for job {job}")
    text = _said(["q", "-allusers", "-long", job], inv)
    if not text.strip():
        inv.out(f"Job {job} does not appear in condor_q output, looking in condor_history.")
        text = _said(["history", "-long", "-limit", "1", job], inv)
        if not text.strip():
            inv.out(f"Job {job} does not appear in condor_history either.")
    _write(of_job / "job_ad", text)
    inv.out(f"acquire_job_analysis: Getting job analysis for job {job}")
    _write(of_job / "job_ad_analysis", _said(["q", "-better-analyze", job], inv))
    ad = next(iter(parse_ads(text.encode(errors="surrogateescape"))), ClassAd())
    inv.out(f"acquire_job_userlog_lines: Getting job log entries for job {job}")
    _write(of_job / "job_userlog_lines", _event_log(ad))
    knobs = inv.knobs()
    for name in _LOGS:
        for path in (Path(knobs.get("LOG") or inv.home.log) / found for found in (name, f"{name}.old")):
            if os.access(path, os.R_OK):
                _write(place / path.name, _end_of_log(path))


def _event_log(ad: ClassAd) -> str:
    """The end of a job's event log, or why there is none: the job's owner named it, and may have named any file."""
    named = ad.get("UserLog")
    if not isinstance(named, str):
        return "No log file specified in job ad.\n"
    path = Path(str(ad.get("Iwd", "/"))) / named
    try:
        # Head and end are of one opened file: the name may lead elsewhere a moment later.
        with os.fdopen(safe_open.regular(str(path)), "rb") as stream:
            if re.match(rb"\d{3} \(", stream.read(5)) is None:
                return f"{path} is not an event log.\n"
            return _end(stream)
    except FileNotFoundError:
        return "Userlog file does not exist. See query file.\n"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        return _unreadable(path, error)


def _end_of_log(path: Path) -> str:
    """The end of a daemon's log: what is given away has no file that a link of the daemons' account leads to."""
    try:
        with os.fdopen(open_log(path), "rb") as stream:
            return _end(stream)
    except OSError as error:
        return _unreadable(path, error)


def _end(stream: BinaryIO) -> str:
    stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST))
    return stream.read(_MOST).decode(errors="surrogateescape")


def _unreadable(path: Path, error: OSError | ValueError) -> str:
    """What stands in place of a file that cannot be read; the rest is gathered all the same."""
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"cannot read {path}: {why} (its owner, or root, can add it)\n"

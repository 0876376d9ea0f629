"""``slotwise preen``: removes what crashed runs and daemons left in SPOOL, EXECUTE and LOG (condor_preen).

Only what is known to be dead is removed: schedd and startd of this pool are asked after the files were listed, and
where one does not answer, what may be its own is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from slotwise.classad import ClassAd
from slotwise.classad.values import whole
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.host.stale_files import (
    Finding,
    JobDirectory,
    LogFile,
    LogRules,
    job_directory,
    judge_logs,
    judge_spool,
    report,
)
from slotwise.errors import DeniedError, HostError, SlotwiseError, UsageError
from slotwise.execution import control_dir, launcher
from slotwise.table import unpack_ads
from slotwise.wire import address
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc, startd_pb2_grpc
from slotwise.wire.status import to_error

if TYPE_CHECKING:
    from slotwise.config import Config

USAGE = """usage: slotwise preen [options]
  Lists what crashed runs and daemons of this host have left: in SPOOL directories of jobs that are not in the queue, in
  EXECUTE those of runs that no starter knows, in LOG core files and INVALID_LOG_FILES.
  -remove               remove it
  -verbose              list all files that were looked at, with OK or BAD
  -mail                 mail the list to PREEN_ADMIN, or CONDOR_ADMIN, instead of printing it
  -json                 the list for programs
  -debug, -log FILE     say what is asked and answered: on standard error, into a file"""
_OPTIONS = [*(Option(name, 1) for name in ("help", "remove", "verbose", "mail", "json", "debug")), Option("log", 1, 1)]
#: Younger directories of runs are left alone: seconds.
_YOUNG_S = 1800
#: How long a daemon may take to answer, seconds.
_PATIENCE_S = 60
#: States of slots in which no job can be on the machine.
_NO_JOB = frozenset(("owner", "unclaimed", "matched"))
_NO_MAIL = 2
_EXPLANATION = """
What is condor_preen?

The condor_preen tool examines the directories belonging to Condor, and
removes extraneous files and directories which may be left over from Condor
processes which terminated abnormally either due to internal errors or a
system crash.  The directories checked are the LOG, EXECUTE, and SPOOL
directories as defined in the Condor configuration files.

See the Condor manual section on condor_preen for more details.
"""


def main(args: list[str], inv: Invocation) -> int:
    """List or remove stale files."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"preen takes no word {parsed.words[0]!r}", hint="slotwise preen -help")
    knobs = inv.knobs()
    home = inv.home_of(knobs)
    if not home.spool.is_dir():
        raise HostError(f"there is no pool at {home.root}", hint="name its directory with SLOTWISE_HOME")
    if not os.access(home.spool, os.R_OK | os.W_OK | os.X_OK):
        raise DeniedError(f"{home.spool} is closed to this user", hint="run as root, or as the user of the pool")
    log = parsed.value("log")
    search = _Search(inv, knobs, parsed.has("debug"), None if log is None else inv.path(log))
    findings = [*search.spool(), *search.execute(), *search.log()]
    if parsed.has("verbose") and not parsed.has("json"):
        for one in findings:
            inv.out(f"{one.path} - {'BAD' if one.stale else 'OK'}")
    stale = [one for one in findings if one.stale]
    results = [(one, _remove(one.path) if parsed.has("remove") else None) for one in stale]
    lines = report(results)
    search.note(f"Results: {len(lines) or 'No'} file{'' if len(lines) == 1 else 's'} preened")
    status = 1 if search.unanswered and not inv.called else 0
    if parsed.has("json"):
        shown = [(one, None) for one in findings if not one.stale] if parsed.has("verbose") else []
        inv.out(json.dumps([
            {"Path": str(one.path), "Stale": one.stale, "About": one.about, "Removed": removed}
            for one, removed in (*shown, *results)
        ]))  # fmt: skip
        return status
    if not lines:
        return status
    if parsed.has("mail"):
        return _mail(inv, knobs, lines) or status
    for line in lines:
        inv.out(f"  {line}")
    return status


@dataclass
class _Search:
    """Looks into the directories of the caller's pool."""

    inv: Invocation
    knobs: Config
    debug: bool
    log_file: Path | None
    #: Whether a daemon did not answer whose files therefore were not judged.
    unanswered: bool = field(default=False, init=False)

    def note(self, text: str) -> None:
        """Say a line where -debug and -log want it."""
        if self.debug:
            self.inv.err(text)
        if self.log_file is not None:
            with self.log_file.open("a") as stream:
                stream.write(f"{time.strftime('%m/%d/%y %H:%M:%S')} {text}\n")

    def _ask(self, daemon: str, what: Callable[[grpc.Channel], list[ClassAd]], instead: str) -> list[ClassAd] | None:
        """The answer of this pool's own daemon on this host, never another's; None when there is none, said with
        ``instead``."""
        try:
            return what(self.inv.open(address.lookup(self.inv.home, daemon).local))
        except grpc.RpcError as error:
            why: SlotwiseError = to_error(error, peer=f"the {daemon}")
        except SlotwiseError as error:
            why = error
        self.unanswered = True
        self.inv.err(f"{why.message}. {instead}")
        self.note(f"{why.message}. {instead}")
        return None

    # ---- SPOOL

    def spool(self) -> list[Finding]:
        """Directories of jobs."""
        home = self.inv.home_of(self.knobs)
        found = [one for root in (home.spool / "jobs", home.sandboxes) for one in _job_directories(root)]
        if not found:
            return []
        self.note(f"Found files for {len(found)} jobs. Asking schedd if the jobs are still present")
        clusters = [one.cluster for one in found]
        constraint = f"ClusterId >= {min(clusters)} && ClusterId <= {max(clusters)}"
        ads = self._ask(
            "schedd", lambda channel: _jobs(channel, constraint), "Assuming all job id's are still current."
        )
        if ads is None:
            return []
        jobs = {(whole(ad.eval("ClusterId")), whole(ad.eval("ProcId"))) for ad in ads}
        valid = [word for word in self.knobs.get_str("VALID_SPOOL_FILES").replace(",", " ").split() if word]
        return judge_spool(found, jobs, valid)

    # ---- EXECUTE

    def execute(self) -> list[Finding]:
        """Directories of runs: stale once no slot of the machine can have a job and no starter has a record of them."""
        found = [path for place in self._executes() for path in _entries(place) if path.name.startswith("dir_")]
        if not found:
            return []
        slots = self._ask("startd", _slots, "Error getting startd state, not cleaning execute directory.")
        if slots is None:
            return []
        busy = [str(ad.get("State")) for ad in slots if str(ad.get("State")).lower() not in _NO_JOB]
        if busy:
            self.note(f"The startd has slots in state {', '.join(sorted(set(busy)))}: all of EXECUTE may be in use")
        return [Finding(path, stale=not busy and self._is_left_over(path)) for path in found]

    def _executes(self) -> list[Path]:
        named = [*self.knobs.members("SLOT<N>_EXECUTE"), *self.knobs.members("SLOT_TYPE_<N>_EXECUTE")]
        places = [self.knobs.get_str(name).strip() for name, _number in named]
        first = self.knobs.get("EXECUTE") or str(self.inv.home.execute)
        return [Path(place) for place in dict.fromkeys([first, *places]) if place]

    def _is_left_over(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            about = path.lstat()
            old = time.time() - about.st_ctime > _YOUNG_S
            return old and not control_dir.has_record(path, self.knobs.get_str("SLOTWISE_CONTROL_DIR"))
        return False

    # ---- LOG

    def log(self) -> list[Finding]:
        """Files in LOG."""
        knobs = self.knobs
        files = []
        for path in _entries(Path(knobs.get("LOG") or self.inv.home.log)):
            with contextlib.suppress(OSError):
                about = path.lstat()
                files.append(LogFile(path, about.st_size, about.st_mtime))
        rules = LogRules(
            knobs.get_str("INVALID_LOG_FILES").replace(",", " ").split(),
            knobs.get_int("PREEN_COREFILE_MAX_SIZE"),
            knobs.get_int("PREEN_COREFILE_STALE_AGE"),
        )
        return judge_logs(files, rules, time.time())


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(f"cannot read {directory}: {error.strerror}", hint="run as root") from None


def _job_directories(root: Path) -> list[JobDirectory]:
    clusters = [path for path in _entries(root) if path.is_dir() and not path.is_symlink()]
    found = (job_directory(path, root) for cluster in clusters for path in _entries(cluster))
    return [one for one in found if one is not None]


def _jobs(channel: grpc.Channel, constraint: str) -> list[ClassAd]:
    asked = common_pb2.AdQuery(constraint=constraint, projection=["ClusterId", "ProcId"])
    return _complete(schedd_pb2_grpc.ScheddStub(channel).Query(schedd_pb2.JobQuery(query=asked), timeout=_PATIENCE_S))


def _slots(channel: grpc.Channel) -> list[ClassAd]:
    asked = common_pb2.AdQuery(kind="Machine")
    return _complete(startd_pb2_grpc.StartdStub(channel).Query(asked, timeout=_PATIENCE_S))


def _complete(chunks: Iterable[common_pb2.AdChunk]) -> list[ClassAd]:
    """All ads of an answer.

    :raises HostError: the answer broke off.
    """
    ads: list[ClassAd] = []
    done = False
    for chunk in chunks:
        ads += unpack_ads(chunk.data) if chunk.data else []
        done = done or chunk.done
    if not done:
        raise HostError("the answer broke off")
    return ads


def _remove(path: Path) -> bool:
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return True
    except OSError:
        return False
    return not launcher.remove_tree(path) and not os.path.lexists(path)


def _mail(inv: Invocation, knobs: Config, lines: Sequence[str]) -> int:
    """Mail the lines; returns the exit status."""
    from slotwise.mail.message import framed, recipients
    from slotwise.mail.outbox import CannotSendError, Outbox
    from slotwise.mail.settings import MailSettings

    host = knobs.get_str("FULL_HOSTNAME") or os.uname().nodename
    outbox = Outbox(inv.env)
    outbox.settings = settings = MailSettings.of(knobs, host)
    to = recipients(knobs.get_str("PREEN_ADMIN") or settings.admin).addresses
    if not to:
        inv.err("PREEN_ADMIN and CONDOR_ADMIN name nobody who could get the mail")
        return _NO_MAIL
    plural = "s" if len(lines) > 1 else ""
    text = f"\nThe condor_preen process has found the following stale condor files on <{host}>:\n\n"
    text += "".join(f"  {line}\n" for line in lines) + "\n" + _EXPLANATION
    mail = framed(to, f"condor_preen results {host}: {len(lines)} old file{plural} found", text, settings)
    try:
        asyncio.run(outbox.send(mail))
    except CannotSendError as error:
        inv.err(f"could not send mail to {', '.join(to)}: {error}")
        for line in lines:  # what was removed is told all the same
            inv.err(f"  {line}")
        return _NO_MAIL
    return 0

"""Which DAG a name means: a DAG file, or the id of a DAG's job; and what the job was told."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct, field

from slotwise import record_lock
from slotwise.classad import ClassAd
from slotwise.dag import run_options
from slotwise.dag.plan import Plan
from slotwise.dag.run_options import RunOptions
from slotwise.errors import NotFoundError, UsageError
from slotwise.execution import arguments, dagman

#: What is asked of a DAG's job.
ATTRIBUTES = (
    "ClusterId", "Owner", "Cmd", "Iwd", "Arguments", "Args", "JobStatus", "HoldReason", "JobStartDate", "ExitCode",
    "EnteredCurrentStatus", "JobCoolDownExpiration", "JobBatchName", "DAG_Status", "DAG_NodesTotal", "DAGManJobId",
    "DAGNodeName",
)  # fmt: skip
_SUBMITTED = re.compile(r"^000 \((\d+)\.", re.MULTILINE)


class Place(Struct, frozen=True):
    """A DAG that was submitted, or may be.

    :ivar directory: where its job runs, absolute.
    :ivar options: what its job is told.
    :ivar cluster: of its job; 0 for none that is known.
    :ivar ad: of its job, as far as the caller has asked.
    """

    directory: Path
    options: RunOptions
    cluster: int = 0
    ad: ClassAd | None = field(default=None)

    @property
    def primary(self) -> str:
        """The DAG file that gives the other files their names."""
        return self.options.primary

    def beside(self, kind: str) -> Path:
        """A file of the DAG's, such as ``halt``."""
        return self.directory / f"{self.primary}.{kind}"

    def nodes_log(self, pattern: str) -> Path:
        """The event log of its nodes' jobs. ``pattern``: DAGMAN_DEFAULT_NODE_LOG."""
        ad = ClassAd() if self.ad is None else self.ad
        owner, node = str(ad.get("Owner", "")), str(ad.get("DAGNodeName", ""))
        plan = Plan(self.directory, tuple(self.options.files), self.cluster, "", "", owner=owner, node=node)
        return plan.nodes_log(pattern)

    @property
    def debug_log(self) -> Path:
        """X.dagman.out."""
        moved = self.options.outfile_dir
        base = f"{moved}/{self.primary.rsplit('/', 1)[-1]}" if moved else self.primary
        return self.directory / f"{base}.dagman.out"

    @property
    def is_ours(self) -> bool:
        """Whether Slotwise's own condor_dagman runs it."""
        program = self.options.dagman if self.ad is None else self.ad.get("Cmd")
        return not program or not dagman.is_dagman(program)


def of_file(path: Path, name: str, cwd: Path, more: list[str]) -> Place:
    """The DAG of a file; ``more``: further files of it, where it has not been submitted yet.

    :raises NotFoundError: there is no such file.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no DAG file {name}", hint="name a DAG file, or the id of a DAG's job")
    words = _words(path.with_name(f"{path.name}.condor.sub"))
    if not words:
        return Place(cwd, RunOptions(files=[name, *more]))
    options = run_options.read(words)
    for directory in (cwd, *path.parents):
        if (directory / options.primary).exists() and (directory / options.primary).samefile(path):
            found = Place(directory, options)
            return Place(directory, options, _cluster(found))
    return Place(cwd, RunOptions(files=[name, *more]))


def _words(description: Path) -> list[str]:
    """The arguments in a DAG's job's submit description."""
    try:
        text = description.read_text(errors="surrogateescape")
    except OSError:
        return []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "arguments":
            plain = arguments.in_double_quotes(value.strip())
            return [] if plain is None else arguments.split_new(plain)
    return []


def _cluster(place: Place) -> int:
    """The cluster of the DAG's job, by the lock of the runner or by the job's event log; 0 if neither tells."""
    try:
        text = place.beside("lock").read_text().strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if text.isdigit():
        return int(text)
    try:
        found = _SUBMITTED.findall(place.beside("dagman.log").read_text(errors="replace"))
    except OSError:
        return 0
    return int(found[-1]) if found else 0


def of_job(ad: ClassAd) -> Place:
    """The DAG that a job runs.

    :raises UsageError: it runs none.
    """
    cluster = int(str(ad.get("ClusterId", 0)))
    if not dagman.runs_dags(ad.get("Cmd")):
        raise UsageError(f"job {cluster} runs no DAG", hint="`slotwise q -dag` shows DAGs")
    options = run_options.read(arguments.of_job(ad.get("Arguments"), ad.get("Args")))
    return Place(Path(str(ad.get("Iwd", "/"))), options, cluster, ad)


def is_running(place: Place) -> bool:
    """Whether a runner works at it: it holds the lock. Asks, and takes nothing."""
    path = place.directory / (place.options.lock_file or f"{place.primary}.lock")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return record_lock.holder(fd) is not None
    except OSError:
        return False
    finally:
        os.close(fd)


__all__ = ["ATTRIBUTES", "Place", "is_running", "of_file", "of_job"]

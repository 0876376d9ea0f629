"""Which files in LOG and SPOOL are stale: decides for ``slotwise preen`` (manual, "Preen Configuration Options")."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from slotwise.model.job_id import JobId

#: Core files over the size limit are kept, newest first, up to so many times the limit in all.
_LARGE_CORES = 4
_CORE = re.compile(r"core\.\w.*")


class Finding(Struct, frozen=True):
    """A file or directory that was looked at; ``about``: what else is said of a stale one."""

    path: Path
    stale: bool
    about: str = ""


class LogFile(Struct, frozen=True):
    """A file in LOG: size in bytes, time of its last change."""

    path: Path
    size: int
    changed: float


class LogRules(Struct, frozen=True):
    """INVALID_LOG_FILES, and PREEN_COREFILE_MAX_SIZE (bytes) and PREEN_COREFILE_STALE_AGE (seconds)."""

    invalid: Sequence[str] = ()
    core_size: int = 50_000_000
    core_age_s: int = 5_184_000


def judge_logs(files: Iterable[LogFile], rules: LogRules, now: float) -> list[Finding]:
    """Of the files in LOG, only those that the administrator names, and core files that are old or large, are stale."""
    found, large = [], []
    for file in files:
        if file.path.name in rules.invalid:
            found.append(Finding(file.path, stale=True))
        elif not _CORE.fullmatch(file.path.name):
            found.append(Finding(file.path, stale=False))
        elif abs(now - file.changed) > rules.core_age_s:
            found.append(_core(file, stale=True))
        elif file.size > rules.core_size:
            large.append(file)
        else:
            found.append(Finding(file.path, stale=False))
    room = _LARGE_CORES * rules.core_size
    for file in sorted(large, key=lambda file: -file.changed):
        stale = file.size > room
        room -= 0 if stale else file.size
        found.append(_core(file, stale=stale))
    return sorted(found, key=lambda one: one.path)


def _core(file: LogFile, *, stale: bool) -> Finding:
    return Finding(file.path, stale, f"size: {file.size}" if stale else "")


class JobDirectory(Struct, frozen=True):
    """A directory of one job in SPOOL; ``names``: its own name, and those of the directories above it within SPOOL."""

    path: Path
    cluster: int
    proc: int
    names: tuple[str, ...]


def job_directory(path: Path, within: Path) -> JobDirectory | None:
    """The job that ``within/CLUSTER/PROC`` (or ``PROC.new``, being written) belongs to; None for other names."""
    cluster = path.parent.name
    job = JobId.of_directory(cluster, path.name)
    if job is None or job.proc is None:
        return None
    return JobDirectory(path, job.cluster, job.proc, (within.name, cluster, path.name))


def judge_spool(
    found: Iterable[JobDirectory], jobs: Collection[tuple[int, int]], valid: Sequence[str]
) -> list[Finding]:
    """Directories of jobs are stale whose jobs are not among ``jobs``, those in the queue.

    :param valid: VALID_SPOOL_FILES: names that are left alone, with ``*`` for any part.
    """
    return [
        Finding(
            one.path,
            stale=(one.cluster, one.proc) not in jobs
            and not any(fnmatchcase(name, form) for name in one.names for form in valid),
        )
        for one in found
    ]


def report(findings: Iterable[tuple[Finding, bool | None]]) -> list[str]:
    """The lines about stale files; with each whether it was removed, None where that was not asked for."""
    said = {True: "Removed", False: "Can't Remove", None: "Not Removed"}
    return [
        f"{finding.path} - {said[removed]}" + (f" - {finding.about}" if finding.about else "")
        for finding, removed in findings
    ]

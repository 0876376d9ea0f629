"""Composes the keeper's spec of a job on the access point: program, environment, directories, limits. Pure.

A job of the scheduler universe gets the environment of its submit description and CONDOR_ID, but none of the schedd's.
A job of the local universe also gets what a starter provides, and a scratch directory. Both run in their initial
directory and write their files in place: nothing is transferred.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.execution import environment
from slotwise.execution.cgroup import plan as cgroup_plan
from slotwise.execution.cgroup.plan import CgroupRules
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.dagman import OWN, is_dagman
from slotwise.execution.environment import EnvironmentSettings, Places
from slotwise.execution.job_view import NULL_FILE, SCRATCH_TEXT, JobView, SlotView
from slotwise.execution.keeper_spec import CgroupPlan, Identity, KeeperSpec, Limits
from slotwise.schedd.jobs import dags
from slotwise.schedd.jobs.codes import Universe

#: What the names of run directories begin with.
PREFIX = "dir_"
#: The parent of control directories until the first job needs one.
_NOWHERE = Path("/nonexistent")


class LocalLimits(Struct, frozen=True):
    """The limits of one job: memory (MiB), processes and open files (0: no limit), and its nice value."""

    memory_mib: int = 0
    #: Whether what a job of the local universe requests limits its memory, too.
    requests_bind: bool = False
    processes: int = 0
    open_files: int = 0
    nice: int = 0


class MemoryLimit(Struct, frozen=True):
    """How much memory one job may use (MiB; 0: any), and whether that is what it requested."""

    mib: int
    is_request: bool = False


def memory_limit(limits: LocalLimits, universe: int, requested_mib: float) -> MemoryLimit:
    """The limit of a job that requests so much; 0: nothing."""
    requested = int(requested_mib)
    if not limits.requests_bind or universe != Universe.LOCAL or requested <= 0:
        return MemoryLimit(limits.memory_mib)
    if 0 < limits.memory_mib < requested:
        return MemoryLimit(limits.memory_mib)
    return MemoryLimit(requested, is_request=True)


class RunPlace(Struct, frozen=True):
    """Directories of one run: the keeper's, and the one that the job finds its ad in.

    ``name`` is that of both; ``execute`` is LOCAL_UNIV_EXECUTE.
    """

    name: str
    control: Path
    execute: Path

    @classmethod
    def of(cls, run_id: str, root: Path | None, execute: Path) -> RunPlace:
        """The directories of a run. ``root``: the parent of control directories; None: there is none yet."""
        name = PREFIX + run_id.replace("#", "_")
        return cls(name, (root or _NOWHERE) / name, execute)

    @property
    def root(self) -> Path | None:
        """The parent of the control directory; None: there is none yet."""
        return None if self.control.parent == _NOWHERE else self.control.parent

    @property
    def directory(self) -> Path:
        """The run's own directory below LOCAL_UNIV_EXECUTE."""
        return self.execute / self.name

    def scratch(self, universe: int) -> Path:
        """The directory of the ads, and in the local universe of the job's temporary files."""
        return self.directory / "scratch" if universe == Universe.LOCAL else self.directory


class Surroundings(Struct, frozen=True):
    """What all jobs of a schedd share. ``pool``: environment by which commands that a job calls find this pool.
    ``dagman``: more of it for HTCondor's condor_dagman."""

    limits: LocalLimits
    cgroups: CgroupHost
    notices: Path
    group_prefix: str
    pool: Mapping[str, str] = field(default_factory=dict)
    dagman: Mapping[str, str] = field(default_factory=dict)


def compose(
    job: JobView,
    universe: int,
    identity: Identity,
    place: RunPlace,
    around: Surroundings,
    memory: MemoryLimit,
    *,
    secret: str,
    batch: str = "",
) -> KeeperSpec:
    """The keeper's spec. ``secret`` makes the marker in the job's environment this run's own. ``batch``: the name of
    the job's batch, which HTCondor's condor_dagman passes on."""
    scratch = str(place.scratch(universe))
    marker = f"_SLOTWISE_FAMILY={place.name}.{secret}"
    program = _joined(job.iwd, job.cmd)
    arguments = [word.replace(SCRATCH_TEXT, scratch) for word in job.arguments]
    pool = around.pool
    if dagman := universe == Universe.SCHEDULER and is_dagman(job.cmd):
        pool = {**pool, **around.dagman}
    return KeeperSpec(
        name=place.name,
        exe=program,
        args=(program, *(dags.with_batch_name(arguments, batch) if dagman else arguments)),
        env=_environment(job, universe, identity, scratch, pool, marker),
        cwd=job.iwd,
        stdin=_joined(job.iwd, job.stdin),
        stdout=_joined(job.iwd, job.stdout),
        stderr=_joined(job.iwd, job.stderr),
        appends=job.appends,
        warm=universe == Universe.SCHEDULER and job.cmd == OWN,
        identity=identity,
        limits=_limits(job, universe, around),
        cgroup=_cgroup(place, identity, around, memory.mib),
        notify=str(around.notices),
        marker=marker,
        kill_signal=job.kill.soft,
    )


def _environment(
    job: JobView, universe: int, identity: Identity, scratch: str, pool: Mapping[str, str], marker: str
) -> dict[str, str]:
    ad = f"{scratch}/.job.ad"
    own = {**pool, **job.environment}
    if job.proxy:
        own["X509_USER_PROXY"] = job.proxy
    if universe == Universe.LOCAL:
        view = replace(job, environment=own)
        places = Places(scratch=scratch, job_ad=ad, machine_ad=f"{scratch}/.machine.ad", iwd=job.iwd)
        settings = EnvironmentSettings()
        return environment.build(view, SlotView(name=""), places, settings, home=identity.home, marker=marker)
    own["CONDOR_ID"], own["_CONDOR_JOB_AD"] = job.job_id, ad
    name, _, value = marker.partition("=")
    return {**own, name: value}


def _limits(job: JobView, universe: int, around: Surroundings) -> Limits:
    limits = around.limits
    core = job.core_bytes or 0
    bounds = [(resource.RLIMIT_CORE, core, core)]
    if limits.open_files:
        bounds.append((resource.RLIMIT_NOFILE, limits.open_files, limits.open_files))
    return Limits(
        tuple(bounds),
        # Without a control group that counts processes, the limit is the account's.
        processes=0 if around.cgroups.has("pids") else limits.processes,
        nice=max(0, min(19, limits.nice)) if universe == Universe.SCHEDULER else 0,
    )


def _cgroup(place: RunPlace, identity: Identity, around: Surroundings, most: int) -> CgroupPlan:
    if not around.cgroups.version:
        return CgroupPlan()
    rules = CgroupRules(
        memory_policy="custom" if most else "none",
        hard_mib=most or None,
        disable_swap=False,
        max_processes=around.limits.processes,
    )
    name = f"{around.group_prefix}{place.name}"
    user = identity.uid is not None
    return cgroup_plan.plan(around.cgroups, rules, name=name, cpus=1, memory_mib=most, user=user)


def _joined(directory: str, name: str) -> str:
    return name if name == NULL_FILE else os.path.join(directory, name)

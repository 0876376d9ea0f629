"""What it costs to start a job: plain, and in full isolation (cgroup, namespaces, another user).

Forks real keepers that run ``/bin/true``, 40 at a time, and counts only jobs whose result says that they ran to their
end. Full isolation needs root. ``python bench/bench_starter.py [--jobs N] [--rounds N]``
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness import Report
from slotwise.execution.cgroup.plan import CgroupRules, plan
from slotwise.execution.cgroup.probe import CgroupHost, probe
from slotwise.execution.control_dir import control_root
from slotwise.execution.keeper_spec import CgroupPlan, Identity, Isolation, KeeperSpec, read_result
from slotwise.execution.launcher import Entry, Launcher, remove_tree, write_files

_AT_ONCE = 40
_NOBODY = 65534


def spec_of(name: str, base: Path, notices: Path, groups: CgroupHost | None, *, namespace: bool) -> KeeperSpec:
    """A job that does nothing; with ``groups`` in full isolation."""
    root = os.geteuid() == 0
    return KeeperSpec(
        name=name,
        exe="/bin/true",
        args=("/bin/true",),
        env={"PATH": "/bin"},
        cwd="/",
        identity=Identity(_NOBODY, _NOBODY) if root else Identity(),
        isolation=Isolation(
            ((str(base / name / "tmp"), "/tmp"),), pid_namespace=namespace, shm_mib=64, private_ipc=True
        )
        if groups
        else Isolation(),
        cgroup=plan(
            groups,
            CgroupRules(max_processes=4096),
            name=f"bench-{os.getpid()}-{name}",
            cpus=1,
            memory_mib=64,
            user=True,
        )
        if groups
        else CgroupPlan(),
        notify=str(notices),
    )


async def one_round(jobs: int, groups: CgroupHost | None, *, namespace: bool) -> float:
    """Jobs a second of one round."""
    base = Path(tempfile.mkdtemp(prefix="slotwise-bench-", dir="/var/tmp"))
    base.chmod(0o755)
    control = control_root(base)
    room = asyncio.Semaphore(_AT_ONCE)
    left = jobs
    done = asyncio.Event()

    def notice(_name: str, what: str) -> None:
        nonlocal left
        if what == "ended":
            left -= 1
            room.release()
            if left == 0:
                done.set()

    launcher = Launcher(control / "notices", notice)
    await launcher.start()
    try:
        started = time.perf_counter()
        for number in range(jobs):
            await room.acquire()
            name = f"dir_{number}"
            spec = spec_of(name, base, control / "notices", groups, namespace=namespace)
            entries: list[Entry] = [(str(base / name), 0o755, None, None), (str(control / name), 0o700, None, None)]
            if groups:
                entries.append((str(base / name / "tmp"), 0o1777, None, None))
            write_files([*entries, (str(control / name / "spec"), 0o600, None, spec.encode())])
            launcher.spawn(control / name)
        await asyncio.wait_for(done.wait(), 60)
        elapsed = time.perf_counter() - started
        results = [read_result(control / f"dir_{number}") for number in range(jobs)]
        good = [r for r in results if r is not None and r.how == "exited" and r.code == 0 and not r.leftovers]
        assert len(good) == jobs, f"{jobs - len(good)} of {jobs} jobs did not run: {results[:2]}"
        assert not any(r.unenforced for r in good), good[0].unenforced
        return jobs / elapsed
    finally:
        await launcher.stop()
        remove_tree(base)
        shutil.rmtree(control, ignore_errors=True)


def main() -> int:
    """Run all cases; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    root = os.geteuid() == 0
    groups = probe("htcondor", is_root=root, without_root=True)
    cases: dict[str, tuple[CgroupHost | None, bool]] = {"starts, plain": (None, False)}
    if root and groups.version:
        cases[f"starts, isolated: cgroup v{groups.version}, mounts, user"] = (groups, False)
        cases["starts, isolated, with a process namespace"] = (groups, True)
    else:
        print("full isolation is left out: it needs root and cgroups")
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):  # the cases take turns, so that a busy machine is busy for all
        for name, (hosts, namespace) in cases.items():
            rates[name].append(asyncio.run(one_round(options.jobs, hosts, namespace=namespace)))
    report = Report("starter")
    for name, values in rates.items():
        target = "400" if name == "starts, plain" else "150"
        report.add(name, "jobs/s", values, target=target, note=f"load {os.getloadavg()[0]:.0f}")
    report.save(Path(__file__).resolve().parent / "out")
    return 0


if __name__ == "__main__":
    sys.exit(main())

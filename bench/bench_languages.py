"""Configuration and submit descriptions: reading 5,000 lines, 100,000 jobs of one description, 1,000 descriptions.

HTCondor's figures are taken beside ours with the ``htcondor2`` of the same machine, where it is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import slotwise.config
import slotwise.submit
from harness import Report, timed

OUT = Path(__file__).resolve().parent / "out"
LINES = 5_000
JOBS = 100_000
SWEEP = """executable = /bin/sleep
transfer_executable = false
arguments = $(Process) $INT(Process,%05d) $(seconds)
output = out.$(Cluster).$(Process)
error = err.$(Cluster).$(Process)
log = log
request_memory = 2G
request_disk = 100M
+Project = "sweep"
"""
SINGLE = "executable = /bin/true\ntransfer_executable = false\narguments = {at}\nlog = log\nqueue\n"
REFERENCE = """
import sys, time, htcondor2
print(min(one for _ in range(5) if [start := time.perf_counter(), htcondor2.reload_config()]
          for one in [time.perf_counter() - start]))
"""


def site_text(lines: int) -> str:
    """A long configuration that uses the whole language: macros, conditions, prefixes, continued lines, metaknobs."""
    blocks = []
    for at in range(lines // 8):
        blocks.append(
            f"SITE_{at} = $(RELEASE_DIR)/site/{at}\n"
            f"SITE_LIST_{at} = $(SITE_{at}) $(SITE_{max(at - 1, 0)}:none), \\\n    more\n"
            f"if defined SITE_{at}\n  STARTD.SITE_{at} = $INT(SITE_COUNT:{at})\nelse\n  SITE_{at} = no\nendif\n"
        )
    return "".join(blocks) + "use POLICY : Hold_If_Memory_Exceeded\nuse FEATURE : PartitionableSlot\n"


def reference_seconds(path: Path) -> float | None:
    """How long HTCondor takes for the same file; None where it is not installed."""
    environment = {**os.environ, "CONDOR_CONFIG": str(path)}
    done = subprocess.run([sys.executable, "-c", REFERENCE], env=environment, capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 and done.stdout else None


def read_configuration(report: Report, directory: Path) -> None:
    """Load a configuration of 5,000 lines and ask it for every value."""
    path = directory / "condor_config"
    path.write_text(site_text(LINES))

    def load() -> slotwise.config.Config:
        return slotwise.config.load(path, subsystem="SCHEDD", env={})

    config = load()
    assert config.get("SITE_7") == config.expand("$(RELEASE_DIR)/site/7")
    names = [name for name, _, _ in config.settings()]
    reference = reference_seconds(path)
    shown = f"{reference * 1e3:.0f}" if reference is not None else ""
    report.add(f"load {LINES:,} lines", "ms", [t * 1e3 for t in timed(load)], target="< 50", reference=shown)
    report.add(
        f"expand all {len(names):,} values", "ms", [t * 1e3 for t in timed(lambda: [config.get(n) for n in names])]
    )


def make_jobs(report: Report, directory: Path) -> None:
    """One description of 100,000 jobs whose arguments and files differ."""
    config = slotwise.config.load(None, env={}, home=directory)

    def parse(text: str) -> slotwise.submit.Submission:
        return slotwise.submit.parse(text, cwd=str(directory), env={}, owner="bench", now=1_700_000_000, config=config)

    def sweep() -> slotwise.submit.Submission:
        return parse(SWEEP + f"queue {JOBS}\n")

    def packed() -> int:
        return sum(jobs for cluster in sweep().clusters for jobs, _ in cluster.batches())

    cluster = sweep().clusters[0]
    assert str(cluster.job(JOBS - 1)["Args"]).startswith(f"{JOBS - 1} {JOBS - 1:05d}")
    assert packed() == JOBS
    report.add(f"{JOBS:,} jobs of one description, all different", "s", timed(sweep, repeat=3), target="< 1")
    report.add(f"{JOBS:,} jobs, with what goes to the schedd", "s", timed(packed, repeat=3), reference="24")

    def singles() -> None:
        for at in range(1000):
            parse(SINGLE.format(at=at))

    report.add("descriptions of one job, a second", "", [1000 / t for t in timed(singles, repeat=3)], target="> 1,500")


def main() -> int:
    """Run everything."""
    report = Report("Languages")
    with tempfile.TemporaryDirectory() as scratch:
        read_configuration(report, Path(scratch))
        make_jobs(report, Path(scratch))
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())

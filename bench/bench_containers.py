"""What it costs to run a job in a container, beside the runtime's own ``exec`` and a job on the bare host.

One starter with a pretended startd and shadow runs ``/bin/sh -c :`` in an image file, one job at a time, from the
command to the end that the shadow hears. Wants root and Apptainer (`.ci/apptainer`).
``python bench/bench_containers.py [--rounds N]``
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.images import apptainer, image_directory, image_file
from tests.support.starter_bench import StarterBench, starter_bench

_AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def own_run(program: str, image: Path) -> float:
    """Seconds of the runtime's own start with the options that a job has."""
    words = [program, "-s", "exec", "-C", "-W", "/tmp", str(image), "/bin/sh", "-c", ":"]
    began = time.perf_counter()
    subprocess.run([*_AS_NOBODY, *words], check=True, cwd="/", env={"PATH": "/usr/bin:/bin"})
    return time.perf_counter() - began


async def one_job(bench: StarterBench, **ad: object) -> float:
    """Seconds from the startd's command to the end of the job."""
    began = time.perf_counter()
    run = bench.submit("/bin/sh", "-c", ":", **ad)  # type: ignore[arg-type]
    ended = await bench.ended(run, 60)
    assert ended.code == 0 and not ended.reason, ended
    return time.perf_counter() - began


async def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds by case; the cases take turns."""
    program = apptainer()
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-", dir="/var/tmp") as directory:
        place = Path(directory)
        place.chmod(0o755)
        image = image_file(program, image_directory(place / "image"), place / "image.sif")
        contained = {"WantContainer": True, "WantSIF": True, "ContainerImage": str(image)}
        found: dict[str, list[float]] = {"own": [], "plain": [], "contained": []}
        async with starter_bench(SINGULARITY=program) as bench:
            await one_job(bench, **contained)  # the image is tested once
            for _ in range(rounds):
                found["own"].append(own_run(program, image))
                found["plain"].append(await one_job(bench))
                found["contained"].append(await one_job(bench, **contained))
        return found


def main() -> int:
    """Run all cases; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    found = asyncio.run(measure(parser.parse_args().rounds))
    report = Report("containers")
    load = f"load {os.getloadavg()[0]:.0f}"
    names = {"own": "apptainer exec by itself", "plain": "a job on the bare host", "contained": "a job in Apptainer"}
    for case, name in names.items():
        report.add(name, "ms", [1000 * value for value in found[case]], note=load)
    overhead = [1000 * (job - own) for job, own in zip(found["contained"], found["own"], strict=True)]
    report.add("a job in Apptainer, over the runtime's own run", "ms", overhead, target="50", note=load)
    report.save(Path(__file__).resolve().parent / "out")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What it costs to run a job in a container, beside the runtime's own ``exec`` and a job on the bare host.

One starter with a pretended startd and shadow runs ``/bin/sh -c :``, one job at a time, from the command to the end
that the shadow hears: in an image file by Apptainer, in an unpacked image, and in an image of Docker's. The cases take
turns. Wants root, and Apptainer (`.ci/apptainer`) or Docker's daemon; what is not there is left out.
``python bench/bench_containers.py [--rounds N] [--only apptainer|docker]``
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harness import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.containers import IMAGE, Engine, docker_daemon
from tests.support.images import apptainer, image_directory, image_file
from tests.support.starter_bench import StarterBench, starter_bench

_AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@dataclass(frozen=True)
class Case:
    """A way to run a job, and the runtime's own words for the same."""

    name: str
    own: Sequence[str]
    ad: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)


def own_run(case: Case) -> float:
    """Seconds of the runtime's own start with the options that a job has."""
    began = time.perf_counter()
    subprocess.run(case.own, check=True, cwd="/", env={"PATH": "/usr/bin:/bin", **case.env})
    return time.perf_counter() - began


async def one_job(bench: StarterBench, ad: Mapping[str, Any]) -> float:
    """Seconds from the startd's command to the end of the job."""
    began = time.perf_counter()
    run = bench.submit("/bin/sh", "-c", ":", **ad)
    ended = await bench.ended(run)
    assert ended.code == 0 and not ended.reason, ended
    return time.perf_counter() - began


def by_apptainer(place: Path) -> list[Case]:
    """An image file, and the same unpacked."""
    program = apptainer()
    directory = image_directory(place / "image")
    file = image_file(program, directory, place / "image.sif")
    unpacks = [] if Path("/dev/fuse").stat().st_mode & 0o006 == 0o006 else ["--unsquash"]
    cases = []
    for name, image, wants in (
        ("an image file", file, "WantSIF"),
        ("an unpacked image", directory, "WantSandboxImage"),
    ):
        words = [program, "-s", "exec", "-C", *unpacks, "-W", "/tmp", str(image), "/bin/sh", "-c", ":"]
        ad = {"WantContainer": True, wants: True, "ContainerImage": str(image)}
        cases.append(Case(f"{name}, Apptainer", [*_AS_NOBODY, *words], ad))
    return cases


def by_docker(engine: Engine) -> list[Case]:
    """The small image of the tests."""
    words = [engine.program, "run", "--rm", "--network=none", "--init", "--user=65534:65534", "--log-driver=none"]
    ad = {"WantDocker": True, "DockerImage": IMAGE, "DockerNetworkType": "none"}
    return [Case("an image of Docker's", [*words, IMAGE, "/bin/sh", "-c", ":"], ad, engine.env)]


async def measure(rounds: int, only: str) -> dict[str, list[float]]:
    """Seconds by case; the cases take turns."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slotwise-bench-", dir="/var/tmp")))
        place.chmod(0o755)
        cases: list[Case] = []
        knobs: dict[str, Any] = {"DOCKER_TRUST_LOCAL_IMAGES": True}
        if only != "docker":
            with contextlib.suppress(pytest.skip.Exception):
                cases += by_apptainer(place)
                knobs["SINGULARITY"] = apptainer()
        if only != "apptainer":
            with contextlib.suppress(pytest.skip.Exception):
                engine = stack.enter_context(docker_daemon())
                cases += by_docker(engine)
                knobs["DOCKER"] = engine.program
                os.environ.update(engine.env)
        found: dict[str, list[float]] = {"a job on the bare host": []}
        for case in cases:
            found[f"the runtime's own run of {case.name}"] = []
            found[f"a job in {case.name}"] = []
        async with starter_bench(**knobs) as bench:
            for case in cases:
                await one_job(bench, case.ad)  # the image is tested once
            for _ in range(rounds):
                found["a job on the bare host"].append(await one_job(bench, {}))
                for case in cases:
                    found[f"the runtime's own run of {case.name}"].append(own_run(case))
                    found[f"a job in {case.name}"].append(await one_job(bench, case.ad))
        for case in cases:
            pairs = zip(found[f"a job in {case.name}"], found[f"the runtime's own run of {case.name}"], strict=True)
            found[f"over the runtime's own run: {case.name}"] = [job - own for job, own in pairs]
        return found


def main() -> int:
    """Run all cases; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=("", "apptainer", "docker"), default="")
    arguments = parser.parse_args()
    report = Report("containers")
    for name, values in asyncio.run(measure(arguments.rounds, arguments.only)).items():
        target = "50" if name.startswith("over ") else ""
        load = f"load {os.getloadavg()[0]:.0f}"
        report.add(name, "ms", [1000 * value for value in values], target=target, note=load)
    report.save(Path(__file__).resolve().parent / "out")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Toil's HTCondor batch system runs a workflow of a job and its children."""

import os
from pathlib import Path

from toil.common import Toil
from toil.job import Job

SMALL = {"memory": "100M", "cores": 1, "disk": "20M"}


def double(job: Job, number: int) -> int:
    return 2 * number


def total(job: Job, numbers: list[int]) -> int:
    return sum(numbers)


def begin(job: Job) -> int:
    doubled = [job.addChildJobFn(double, number, **SMALL).rv() for number in range(2)]
    return job.addFollowOnJobFn(total, doubled, **SMALL).rv()


if __name__ == "__main__":
    os.umask(0)  # jobs may run as another account and write into the job store
    options = Job.Runner.getDefaultOptions(str(Path("store").absolute()))
    options.batchSystem = "htcondor"
    options.workDir = options.coordinationDir = str(Path.cwd())
    options.statePollingWait = 1
    options.disableProgress = True
    options.clean = "always"
    with Toil(options) as toil:
        assert toil.start(Job.wrapJobFn(begin, **SMALL)) == 2
    print("done")

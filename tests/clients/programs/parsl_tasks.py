"""Parsl runs 50 tasks on blocks that its HTCondor provider starts, and cancels what it no longer needs."""

import os
import sys
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.jobs.states import JobState
from parsl.launchers import SimpleLauncher
from parsl.providers import CondorProvider
from waiting import until


@parsl.python_app
def square(x: int) -> int:
    return x * x


if __name__ == "__main__":
    os.umask(0)  # blocks may run as another account and write into the run's directory
    provider = CondorProvider(
        nodes_per_block=1,
        cores_per_slot=1,
        mem_per_slot=0.2,
        init_blocks=1,
        min_blocks=1,
        max_blocks=1,
        launcher=SimpleLauncher(),
        worker_init=f"export PATH={Path(sys.executable).parent}:$PATH",
    )
    executor = HighThroughputExecutor(
        label="htc", provider=provider, max_workers_per_node=4, address="127.0.0.1", encrypted=False
    )
    with parsl.load(Config(executors=[executor], strategy="none")):
        assert sum(task.result() for task in [square(x) for x in range(50)]) == sum(x * x for x in range(50))
        job = provider.submit("sleep 1000", 1)
        until(lambda: provider.status([job])[0].state, lambda state: state == JobState.RUNNING)
        # It removes the job twice, and counts one that has gone in between as failed, as with HTCondor.
        provider.cancel([job])
        until(lambda: provider.execute_wait(f"condor_q {job} -af JobStatus")[1], lambda told: not told.strip())
    print("done")

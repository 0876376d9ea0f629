"""dask-jobqueue starts workers as jobs, scales them up and down, adapts their number, and logs those it removes."""

import os
import time
from pathlib import Path

from dask_jobqueue import HTCondorCluster
from distributed import Client


def until(what: str, true: object) -> None:
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within a minute: {what}")
        time.sleep(0.05)


if __name__ == "__main__":
    os.umask(0)  # jobs may run as another account and write into the directory of logs
    cluster = HTCondorCluster(
        cores=1,
        memory="200 MB",
        disk="50 MB",
        log_directory="logs",
        death_timeout=60,
        interface="lo",
        worker_extra_args=["--no-dashboard"],
        scheduler_options={"dashboard_address": None},
    )
    client = Client(cluster)
    cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    assert client.gather(client.map(lambda x: x * x, range(20))) == [x * x for x in range(20)]
    cluster.scale(1)
    until("one worker left", lambda: len(client.scheduler_info()["workers"]) == 1)
    cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=2)
    assert sum(client.gather(client.map(lambda x: x + 1, range(100)))) == 5050
    until("no worker left", lambda: not client.scheduler_info()["workers"])
    until("logs of removed workers", lambda: len(list(Path("logs").glob("worker-*.err"))) >= 2)
    client.close()
    cluster.close()
    print("done")

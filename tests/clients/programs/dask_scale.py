"""dask-jobqueue starts workers as jobs, scales them up and down, adapts their number, and logs those it removes."""

import os
from pathlib import Path

from dask_jobqueue import HTCondorCluster
from distributed import Client
from waiting import LIMIT_S, until

if __name__ == "__main__":
    os.umask(0)  # jobs may run as another account and write into the directory of logs
    cluster = HTCondorCluster(
        cores=1,
        memory="200 MB",
        disk="50 MB",
        log_directory="logs",
        death_timeout=LIMIT_S,
        interface="lo",
        worker_extra_args=["--no-dashboard"],
        scheduler_options={"dashboard_address": None},
    )
    client = Client(cluster)

    def workers() -> list[str]:
        return list(client.scheduler_info()["workers"])

    cluster.scale(2)
    client.wait_for_workers(2, timeout=LIMIT_S)
    assert client.gather(client.map(lambda x: x * x, range(20))) == [x * x for x in range(20)]
    cluster.scale(1)
    until(workers, lambda left: len(left) == 1)
    cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=2)
    assert sum(client.gather(client.map(lambda x: x + 1, range(100)))) == 5050
    until(workers, lambda left: not left)
    until(lambda: list(Path("logs").glob("worker-*.err")), lambda logs: len(logs) >= 2)
    client.close()
    cluster.close()
    print("done")

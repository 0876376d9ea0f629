"""law's HTCondor job manager submits job files, queries queue and history for them, and cancels."""

import os
import time
from pathlib import Path

import law

law.contrib.load("htcondor")

if __name__ == "__main__":
    os.umask(0)
    manager = law.htcondor.HTCondorJobManager()
    assert manager.htcondor_version >= (25, 0, 0)
    factory = law.htcondor.HTCondorJobFileFactory(dir=str(Path("files").absolute()), mkdtemp=False)

    def submit(names: list[str], script: str) -> list[str]:
        """law submits many jobs by one file; each finds its number in the environment."""
        Path("run.sh").write_text(f"#!/bin/sh\n{script}\n")
        Path("run.sh").chmod(0o755)
        content = [("request_memory", "20M"), ("request_disk", "1M")]
        path, _ = factory.create(
            grouped_submission=True, executable="run.sh", arguments=names, postfix=names, custom_content=content
        )
        return manager.submit(str(path), job_files=names)

    ids = submit(["_0", "_1"], "exit $LAW_HTCONDOR_JOB_PROCESS")
    assert len(ids) == 2, ids
    deadline = time.monotonic() + 60
    while True:
        told = manager.query_batch(ids) if hasattr(manager, "query_batch") else {one: manager.query(one) for one in ids}
        if {state["status"] for state in told.values()} <= {manager.FINISHED, manager.FAILED}:
            break
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
    assert sorted(state["code"] for state in told.values()) == [0, 1], told
    (waiting,) = submit(["_w"], "sleep 1000")
    while manager.query(waiting)["status"] != manager.RUNNING:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    manager.cancel(waiting)
    while manager.query(waiting)["status"] != manager.FAILED:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    print("done")

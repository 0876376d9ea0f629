"""law's HTCondor job manager submits job files, queries queue and history for them, and cancels."""

import os
from pathlib import Path

import law
from waiting import until

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
    ended = {manager.FINISHED, manager.FAILED}
    told = until(
        lambda: {one: manager.query(one) for one in ids}, lambda told: {one["status"] for one in told.values()} <= ended
    )
    assert sorted(state["code"] for state in told.values()) == [0, 1], told
    (waiting,) = submit(["_w"], "sleep 1000")
    until(lambda: manager.query(waiting)["status"], lambda status: status == manager.RUNNING)
    manager.cancel(waiting)
    until(lambda: manager.query(waiting)["status"], lambda status: status == manager.FAILED)
    print("done")

"""The exact commands of Nextflow's executor for HTCondor (CondorExecutor, 25.10): its manifest, submission, the queue's
table as it reads it, and removal. Nextflow itself needs Java."""

import os
import subprocess
from pathlib import Path

from waiting import until

_MANIFEST = """\
log = .command.log
out = .command.out
error = .command.err
stream_out = true
stream_error = true
executable = .command.run
transfer_executable = False
transfer_output_files=""
universe = vanilla
request_memory = 20 MB
request_disk = 1 MB
periodic_remove = (RemoteWallClockTime - CumulativeSuspensionTime) > 3600
queue

"""


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd="task").stdout


def submit(script: str) -> str:
    wrapper = Path("task/.command.run")
    wrapper.write_text(f"#!/bin/bash\n{script}\n")
    wrapper.chmod(0o755)
    Path("task/.command.condor").write_text(_MANIFEST)
    return run("condor_submit", "-terse", ".command.condor").replace("-", " ").split()[0]


def states() -> dict[str, str]:
    found, started = {}, False
    for line in run("condor_q", "-nobatch").splitlines():
        if not started:
            started = line.startswith(" ID ")
        elif not line.strip():
            break
        else:
            columns = line.split()
            found[columns[0]] = columns[5]
    return found


def until_it_is(job: str, state: str | None) -> None:
    until(states, lambda seen: seen.get(job) == state)


if __name__ == "__main__":
    os.umask(0)
    Path("task").mkdir(mode=0o777)
    until_it_is(submit("echo hello > result"), None)
    assert Path("task/result").read_text() == "hello\n"
    job = submit("sleep 1000")
    until_it_is(job, "R")
    run("condor_rm", job)
    until_it_is(job, None)
    print("done")

"""Jobs that use more memory than they asked for, on a host that limits none: a policy watches them."""

from __future__ import annotations

from collections.abc import Callable

from tests.support import host
from tests.support.pool import Pool

PYTHON = "/usr/bin/python3"
#: No cgroup is given a limit: the processes of the job are what is measured.
UNLIMITED = "NUM_CPUS = 2\nMEMORY = 2048\nCGROUP_MEMORY_LIMIT_POLICY = none\nSTARTER_UPDATE_INTERVAL = 1\n"


@host.needs(host.programs(PYTHON))
def test_a_job_that_uses_too_much_is_held_by_policy(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(UNLIMITED + "use POLICY : Hold_If_Memory_Exceeded\n")
    pool.up()
    description = pool.root / "large.sub"
    description.write_text(
        f"executable = {PYTHON}\ntransfer_executable = false\nrequest_memory = $(size)M\nlog = large.log\n"
        "arguments = \"-c 'import time; held = bytearray(300 << 20); time.sleep(3000)'\"\n"
        "queue size in (32, 600)\n"
    )
    pool.run("submit", str(description), cwd=pool.root)

    def held() -> list[str]:
        return pool.run(
            "q", "-constraint", "JobStatus == 5", "-af", "ProcId", "HoldReasonCode", "HoldReason"
        ).stdout.splitlines()

    pool.until("the first is held", held)
    assert [line.split()[:2] for line in held()] == [["0", "21"]] and "memory usage exceeded request_memory" in held()[
        0
    ]
    assert pool.run("q", "-constraint", "ProcId == 1", "-af", "JobStatus").stdout.split() == ["2"]

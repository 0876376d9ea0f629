"""encrypt_execute_directory in a pool: it goes to machines that can, runs there encrypted, and waits where none can."""

from __future__ import annotations

from collections.abc import Callable

from tests.pool.test_execution_point import BASE, events, slots, submit
from tests.support import host
from tests.support.pool import Pool


@host.needs(host.loop_mounts, host.encryption)
def test_a_job_that_asks_for_encryption_runs_where_there_is_some(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE + "STARTD_ENFORCE_DISK_LIMITS = true\nSLOTWISE_SCRATCH_VOLUMES = loop\n")
    pool.up()
    pool.until("the starter has said what it can", lambda: slots(pool, EnforcesDisk="volume"))
    assert slots(pool, HasEncryptExecuteDirectory=True)
    mounts = ["executable = /bin/cat", "arguments = /proc/self/mountinfo", "output = mounts.txt"]
    log = submit(pool, 0, 1, "encrypt_execute_directory = true", *mounts)
    pool.until("it has ended", lambda: events(log, "005") == 1)
    told = (pool.root / "mounts.txt").read_text()
    assert "/dev/mapper/slotwise_" in told or " /encrypted " in told
    pool.config_file.write_text(pool.config_file.read_text() + "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION = true\n")
    pool.run("restart", "starter")
    pool.until("it does no more", lambda: not slots(pool, HasEncryptExecuteDirectory=True))
    log = submit(pool, 0, 1, "encrypt_execute_directory = true")
    why = pool.until("nobody suits", lambda: "HasEncryptExecuteDirectory" in pool.run("analyze", "2.0").stdout)
    assert why and events(log, "001") == 1

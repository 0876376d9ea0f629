"""New jobs after an outage of the central manager: they do not wait for the negotiator's timer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool


@pytest.mark.parametrize("killed", [("collector",), ("negotiator",), ("collector", "negotiator")], ids="-".join)
def test_a_job_that_was_submitted_meanwhile_starts_once_it_is_back(
    make_pool: Callable[[str], Pool], killed: tuple[str, ...]
) -> None:
    """Cycles of the timer are an hour apart: the one that matches the job is asked for."""
    pool = make_pool("NEGOTIATOR_INTERVAL = 3600\nNEGOTIATOR_CYCLE_DELAY = 3600\nMASTER_BACKOFF_CONSTANT = 1\n")
    pool.up()
    path = Path(pool.root, "it.sub")
    path.write_text("executable = /bin/true\nlog = it.log\nrequest_disk = 1M\nqueue\n")
    pool.run("submit", str(path))
    log = pool.root / "it.log"
    pool.until("the first job ends", lambda: "Job terminated" in log.read_text())
    former = {daemon: pool.kill(daemon) for daemon in killed}
    pool.run("submit", str(path))
    for daemon in killed:
        pool.until(f"the {daemon} is back", lambda daemon=daemon: pool.pid(daemon) not in (None, former[daemon]))
    pool.until("the second job ends", lambda: log.read_text().count("Job terminated") == 2)

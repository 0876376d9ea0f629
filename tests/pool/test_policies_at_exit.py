"""Periodic policies of jobs that end by themselves, in a pool with the template that HTCondor's personal pools use.

The answers are those of HTCondor 25.14.1, with a PERIODIC_EXPR_INTERVAL of ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.pool import Pool

#: No pass over the queue comes in time: what is decided is decided as jobs end.
SETTINGS = "use SECURITY : user_based\nNUM_CPUS = 2\nNEGOTIATOR_INTERVAL = 1\nPERIODIC_EXPR_INTERVAL = 3600\n"
#: Ends with status 7.
ENDS = "executable = /bin/sh\narguments = \"-c 'exit 7'\"\nrequest_memory = 10\n"


def test_periodic_policies_are_asked_when_a_job_ends(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(SETTINGS)
    pool.up()
    for text in (
        "on_exit_remove = false\nperiodic_remove = NumShadowStarts >= 2 && ExitCode =?= 7",
        "periodic_hold = ExitCode =?= 7\nperiodic_hold_subcode = 9",
    ):
        (pool.root / "it.sub").write_text(f"{ENDS}{text}\nqueue\n")
        pool.run("submit", str(pool.root / "it.sub"))
    pool.until("the first has left the queue", lambda: bool(pool.json("history")))
    (ended,) = pool.json("history")
    assert (ended["ClusterId"], ended["NumShadowStarts"], ended["JobStatus"]) == (1, 2, 3)
    assert (ended["ExitCode"], ended["NumJobCompletions"]) == (7, 2)
    assert ended["RemoveReason"].startswith("The job attribute PeriodicRemove expression ")
    pool.until("the second is held", lambda: [ad["JobStatus"] for ad in pool.json("q")] == [5])
    (held,) = pool.json("q")
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"], held["NumShadowStarts"]) == (3, 9, 1)

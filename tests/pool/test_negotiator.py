"""The negotiator of a real pool: what it keeps over its death, and live cycles replayed from their snapshots."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S


def queue(pool: Pool, text: str) -> None:
    """Submit a description of jobs that sleep."""
    path = pool.root / "job.sub"
    path.write_text(f"executable = /bin/sleep\n{text}")
    pool.run("submit", str(path))


def last_cycle(pool: Pool) -> Any:
    return json.loads(pool.run("negotiator", "last", "-json").stdout)


def test_a_machine_kept_for_a_large_job_is_kept_though_the_negotiator_is_killed(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool(
        "NUM_CPUS = 4\nNEGOTIATOR_RESERVE_FOR_LARGE_JOBS = True\n"
        "STARTD_JOB_ATTRS = $(STARTD_JOB_ATTRS), ExpectedRuntime\n"
        "NEGOTIATOR_INTERVAL = 2\nNEGOTIATOR_CYCLE_DELAY = 0\n"
    )
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    queue(pool, "arguments = 600\nrequest_memory = 10\n+ExpectedRuntime = 600\nqueue 2\n")
    expected = ("-constraint", "ExpectedRuntime > 0")
    pool.until("it is known how long two jobs run", lambda: len(pool.json("status", *expected)) == 2)
    queue(pool, "arguments = 1\nrequest_memory = 10\nrequest_cpus = 4\npriority = 5\nqueue\n")
    queue(pool, "arguments = 1\nrequest_memory = 10\n+Small = true\nqueue 2\n")
    kept = pool.until("a machine is kept", lambda: last_cycle(pool)["reservations"])
    pool.kill("negotiator")
    pool.until("the new negotiator has run a cycle", lambda: pool.answers("negotiator") and last_cycle(pool))
    again = pool.until("it keeps the machine", lambda: last_cycle(pool)["reservations"])
    assert again == kept
    assert len(pool.json("q", "-constraint", "Small && JobStatus == 1")) == 2


def test_the_snapshot_of_a_live_cycle_replays_to_the_matches_it_made(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 8\nSLOTWISE_NEGOTIATE_ON_DEMAND = False\nNEGOTIATOR_INTERVAL = 3600\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    queue(pool, "arguments = 600\nrequest_memory = 10\nqueue 3\nrequest_cpus = 2\nqueue 5\n")
    pool.run("reschedule")
    pool.until("the cycle has made its matches", lambda: last_cycle(pool)["matches"])
    pool.until("they run", lambda: len(pool.json("q", "-constraint", "JobStatus == 2")) == 5)
    pool.run("negotiator", "snapshot", "saved")
    made = json.loads((pool.root / "saved" / "outcome.json").read_text())["matches"]
    replayed = json.loads(pool.run("negotiate", "--snapshot", "saved", "--json").stdout)["matches"]
    assert len(made) == last_cycle(pool)["matches"] > 0
    assert [(m["slot"], m["submitter"], m["cost"]) for m in replayed] == [
        (m["slot"], m["submitter"], m["cost"]) for m in made
    ]
    running = pool.json("q", "-constraint", "JobStatus == 2")
    assert sum(ad["RequestCpus"] for ad in running) == sum(m["cost"] for m in made)


def test_groups_are_charged_for_what_they_run_and_keep_to_their_quota(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        "NUM_CPUS = 4\nGROUP_NAMES = phys, phys.hep\nGROUP_QUOTA_phys = 3\nGROUP_QUOTA_DYNAMIC_phys.hep = 0.34\n"
        "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION = False\nSLOTWISE_ACCOUNTING_INTERVAL = 0.2\n"
    )
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    group = "accounting_group = {0}\naccounting_group_user = {1}\nqueue 4\n"
    queue(
        pool, "arguments = 600\nrequest_memory = 10\n" + group.format("phys.hep", "kim") + group.format("phys", "ann")
    )

    def running() -> dict[str, int]:
        names = [ad["AccountingGroup"] for ad in pool.json("q", "-constraint", "JobStatus == 2")]
        return {name: names.count(name) for name in names}

    pool.until("quotas are used", lambda: sum(running().values()) >= 2)
    pool.until("usage is charged", lambda: "phys.hep.kim@" in pool.run("userprio", "-allusers", "-flat").stdout)
    assert running() == {"phys.hep.kim": 1, "phys.ann": 1}

    def usage() -> dict[str, float]:
        ads = pool.json("userprio", "-allusers")
        return {ad["Name"].partition("@")[0]: ad["WeightedResourcesUsed"] for ad in ads if not ad["IsAccountingGroup"]}

    pool.until("all is charged to the submitters", lambda: usage() == {"phys.hep.kim": 1.0, "phys.ann": 1.0})
    assert "phys.hep" in pool.run("negotiator", "last").stdout


def test_jobs_under_a_concurrency_limit_run_one_after_the_other(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 8\nDICE_LIMIT = 1\nNEGOTIATOR_INTERVAL = 1\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    limited = "arguments = 1\nrequest_memory = 10\nconcurrency_limits = dice\nlog = {0}.log\nqueue 2\n"
    queue(pool, limited.format("a"))
    queue(pool, limited.format("b"))

    def running() -> int:
        claimed = pool.json("status", "-constraint", 'State == "Claimed"')
        assert all(ad["ConcurrencyLimits"] == "dice" for ad in claimed)
        return len(pool.json("q", "-constraint", "JobStatus == 2"))

    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, running())
        return not pool.json("q")

    pool.until("all have run", done)
    assert most == 1
    spans = sorted((ad["JobCurrentStartExecutingDate"], ad["CompletionDate"]) for ad in pool.json("history"))
    assert len(spans) == 4
    assert all(later[0] >= former[1] for former, later in pairwise(spans))


def test_a_slot_of_a_quiet_pool_can_be_claimed_after_many_lifetimes_of_its_ad(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 2\nUPDATE_INTERVAL = 1\nCLASSAD_LIFETIME = 3\n")
    pool.up()
    (slot,) = pool.until("the slot is advertised", lambda: pool.json("status"))
    first = slot["LastHeardFrom"]
    pool.until("its ad was renewed", lambda: [ad for ad in pool.json("status") if ad["LastHeardFrom"] > first + 8])
    words = ("executable=/bin/true", "transfer_executable=false", "log=quiet.log", "-queue", "1")
    pool.run("submit", *words)
    assert "All jobs done" in pool.run("wait", "-wait", f"{LIMIT_S:g}", "quiet.log").stdout


def test_a_ceiling_outlives_the_negotiator_and_the_jobs_that_wait_for_it_say_so(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 4\nNEGOTIATOR_INTERVAL = 1\nNEGOTIATOR_CYCLE_DELAY = 0\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    queue(pool, "arguments = 600\nrequest_memory = 10\nqueue 1\n")
    (me,) = pool.until("the job runs", lambda: {ad["RemoteUser"] for ad in pool.json("status") if "RemoteUser" in ad})
    pool.run("userprio", "-setceiling", me, "2")
    pool.kill("negotiator")
    pool.until("another one lives", lambda: pool.answers("negotiator"))
    queue(pool, "arguments = 600\nrequest_memory = 10\nqueue 4\n")
    pool.until("a job is told", lambda: pool.json("q", "-constraint", "LastRejMatchReason isnt undefined"))
    (told,) = pool.json("q", "-constraint", "LastRejMatchReason isnt undefined")
    assert told["LastRejMatchReason"] == "submitter ceiling reached"
    assert len(pool.json("q", "-constraint", "JobStatus == 2")) == 2
    # One job of an autocluster is told; the others point to it.
    for name in (f"{told['ClusterId']}.{told['ProcId']}", "2.3"):
        text = pool.run("q", "-better-analyze", name).stdout
        assert "Reason for last match failure: submitter ceiling reached" in text
        assert "not yet been considered" not in text
    assert "submitter ceiling reached" in pool.run("negotiator", "last").stdout


def test_users_who_may_preempt_each_other_do_so_once_an_interval(make_pool: Callable[[str], Pool]) -> None:
    gap_s, cores = 5, 4
    pool = make_pool(
        f"NUM_CPUS = {cores}\nALLOW_PSLOT_PREEMPTION = True\nPREEMPTION_REQUIREMENTS = True\n"
        f"NEGOTIATOR_CYCLE_DELAY = {gap_s}\nNEGOTIATOR_MIN_INTERVAL = 1\nNEGOTIATOR_INTERVAL = {gap_s}\n"
        "MAXJOBRETIREMENTTIME = 0\nMachineMaxVacateTime = 1\n"
    )
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    began = time.monotonic()

    def events(number: str) -> int:
        logs = [pool.root / f"{user}.log" for user in ("ann", "ben")]
        return sum(log.read_text().count(f"\n{number} (") for log in logs if log.exists())

    for user in ("ann", "ben"):
        queue(
            pool,
            f"arguments = 600\nrequest_memory = 10\nlog = {user}.log\n"
            f"accounting_group = {user}\naccounting_group_user = {user}\nqueue {cores}\n",
        )
        # Two who come at once have half of the cores each from the start, and nothing to preempt.
        pool.until("the first user has all cores", lambda: events("001") >= cores)

    pool.until("both have preempted the other", lambda: events("004") > cores + 1)
    # So many take at least so long.
    found = events("004")
    assert found <= cores * ((time.monotonic() - began) / gap_s + 1)


def ended(pool: Pool, user: str) -> int:
    """Jobs of a user that have ended, by the event log."""
    log = pool.root / f"{user}.log"
    return log.read_text().count("\n005 (") if log.exists() else 0


def two_users(pool: Pool, jobs: int, seconds: float) -> None:
    """One has all cores before the other comes."""
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    for user in ("ann", "ben"):
        queue(
            pool,
            f"arguments = {seconds}\nrequest_memory = 10\nlog = {user}.log\n"
            f"accounting_group = {user}\naccounting_group_user = {user}\nqueue {jobs}\n",
        )
        pool.until("the first user's jobs run", lambda: ended(pool, "ann") > 8)


@pytest.mark.parametrize(
    "slots", ["", "NUM_SLOTS_TYPE_1 = 8\nSLOT_TYPE_1 = cpus=1\nSLOT_TYPE_1_PARTITIONABLE = False\n"]
)
def test_a_user_who_comes_later_gets_a_share_of_reused_claims_without_a_preemption(
    make_pool: Callable[[str], Pool], slots: str
) -> None:
    pool = make_pool(f"NUM_CPUS = 8\nMEMORY = 8192\n{slots}")
    two_users(pool, 400, 0.5)

    def claims() -> dict[str, int]:
        groups = [ad.get("AccountingGroup", "") for ad in pool.json("status", "-constraint", 'State == "Claimed"')]
        return {user: sum(group.startswith(f"{user}.") for group in groups) for user in ("ann", "ben")}

    halves = {"ann": 4, "ben": 4}
    pool.until("each has half of the cores", lambda: claims() == halves)
    first, later = ended(pool, "ann"), ended(pool, "ben")
    pool.until("more of both have ended", lambda: ended(pool, "ann") >= first + 30 and ended(pool, "ben") >= later + 30)
    pool.until("each has half of them still", lambda: claims() == halves)
    assert "\n004 (" not in (pool.root / "ann.log").read_text(), "nobody was evicted"
    given_back = (pool.home.log / "SchedLog").read_text().count("and others wait")
    assert given_back <= 8, "claims go to and fro"


def test_claims_are_reused_whoever_waits_where_the_administrator_says_so(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 8\nMEMORY = 8192\nSLOTWISE_CLAIM_FAIR_SHARE = False\n")
    two_users(pool, 60, 0.5)
    pool.until("the first user's jobs are done", lambda: ended(pool, "ann") >= 50)
    assert ended(pool, "ben") == 0


def test_a_lone_user_gets_a_machine_for_the_large_job_whose_turn_it_is(make_pool: Callable[[str], Pool]) -> None:
    """The user's own small jobs, which came later, would use the claims again and again."""
    pool = make_pool("NUM_CPUS = 4\nMEMORY = 4096\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    memory = "request_memory = 10\n"
    queue(pool, f"arguments = 3\n{memory}queue 8\n")
    pool.until("small jobs run", lambda: len(pool.json("q", "-constraint", "JobStatus == 2")) == 4)
    queue(pool, f"arguments = 600\nrequest_cpus = 4\n{memory}queue\n")
    queue(pool, f"arguments = 3\n{memory}queue 200\n")
    pool.until("the large job runs", lambda: pool.json("q", "-constraint", "ClusterId == 2 && JobStatus == 2"))
    assert pool.json("q", "-constraint", "ClusterId == 3 && JobStatus == 1"), "small jobs wait"


def test_a_large_job_gets_its_machine_when_the_jobs_that_run_there_have_ended(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 4\nMEMORY = 4096\nNEGOTIATOR_RESERVE_FOR_LARGE_JOBS = True\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    user = "accounting_group = {0}\naccounting_group_user = {0}\nrequest_memory = 10\nlog = {0}.log\n"
    queue(pool, f"arguments = 3\n{user.format('ann')}queue 200\n")
    pool.until("small jobs end", lambda: ended(pool, "ann") > 8)
    queue(pool, f"arguments = 600\nrequest_cpus = 4\n{user.format('ben')}queue\n")
    kept = pool.until(
        "the machine tells for whom it is kept", lambda: [s for s in pool.json("status") if "ReservedFor" in s]
    )
    assert kept[0]["ReservedFor"].startswith("ben.ben@") and kept[0]["ReservedForJob"] == "2.0"
    pool.until("the large job runs", lambda: pool.json("q", "-constraint", "ClusterId == 2 && JobStatus == 2"))
    assert pool.json("q", "-constraint", "ClusterId == 1 && JobStatus == 1"), "small jobs wait"
    assert "\n004 (" not in (pool.root / "ann.log").read_text(), "nobody was evicted"
    pool.until("its machine is kept no longer", lambda: all("ReservedFor" not in s for s in pool.json("status")))


USER = "accounting_group = {0}\naccounting_group_user = {0}\nrequest_memory = 10\nlog = {0}.log\n"


def starts(pool: Pool, user: str) -> int:
    """Jobs of a user that have started, by the event log."""
    log = pool.root / f"{user}.log"
    return log.read_text().count("\n001 (") if log.exists() else 0


@pytest.mark.parametrize("others", [("ben", "ben"), ("ben", "cat")])
def test_two_large_jobs_get_the_machines_one_after_the_other(
    make_pool: Callable[[str], Pool], others: tuple[str, str]
) -> None:
    """Two machines full of small jobs, of which one at a time is kept; one user has no more than its share."""
    half = "NUM_SLOTS_TYPE_1 = 2\nSLOT_TYPE_1 = cpus=2, memory=2048\nSLOT_TYPE_1_PARTITIONABLE = True\n"
    pool = make_pool(f"NUM_CPUS = 4\nMEMORY = 4096\n{half}")
    pool.up()
    pool.until("the slots are advertised", lambda: len(pool.json("status")) == 2)
    queue(pool, f"arguments = 1\n{USER.format('ann')}queue 300\n")
    pool.until("small jobs end", lambda: ended(pool, "ann") > 8)
    for user in others:
        queue(pool, f"arguments = 1\nrequest_cpus = 2\n{USER.format(user)}queue\n")
    pool.until("both large jobs have started", lambda: sum(starts(pool, user) for user in set(others)) >= 2)
    assert "\n004 (" not in (pool.root / "ann.log").read_text(), "nobody was evicted"


def test_a_large_job_starts_though_its_user_has_its_share(make_pool: Callable[[str], Pool]) -> None:
    """It comes before the small jobs of its user, and takes their part of the machine."""
    pool = make_pool("NUM_CPUS = 4\nMEMORY = 4096\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    for user in ("ben", "ann"):
        queue(pool, f"arguments = 4\n{USER.format(user)}queue 300\n")  # long enough for a look at what is kept
        pool.until("small jobs end", lambda user=user: ended(pool, user) > 4)
    large = USER.format("ben").replace("ben.log", "large.log")
    queue(pool, f"arguments = 600\nrequest_cpus = 4\npriority = 10\n{large}queue\n")
    pool.until(
        "analyze names the machine",
        lambda: "slot1@" in (told := pool.run("analyze", "3.0").stdout) and "is kept for it" in told,
    )
    pool.until("the large job runs", lambda: starts(pool, "large"))


def test_small_and_whole_machine_jobs_of_two_users_take_turns(make_pool: Callable[[str], Pool]) -> None:
    """Neither user waits for the other's queue to be empty."""
    pool = make_pool("NUM_CPUS = 2\nMEMORY = 2048\nSLOTWISE_ACCOUNTING_INTERVAL = 1\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    queue(pool, f"arguments = 1\nrequest_cpus = 2\n{USER.format('ann')}queue 300\n")
    pool.until("large jobs end", lambda: ended(pool, "ann") > 1)
    queue(pool, f"arguments = 1\n{USER.format('ben')}queue 300\n")
    pool.until("small jobs start", lambda: starts(pool, "ben"))
    before = starts(pool, "ann")
    pool.until("and large ones again", lambda: starts(pool, "ann") > before)

"""Jobs that HTCondor starts start, and a slot that refuses what it seems to suit is not offered for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool

CASES = json.loads((Path(__file__).parent.parent / "conformance" / "starts.json").read_text())
QUICK = (
    "NEGOTIATOR_INTERVAL = 1\nUPDATE_INTERVAL = 2\n"
    "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = true\n"
)


def submit(pool: Pool, text: str) -> None:
    (pool.root / "it.sub").write_text(f"executable = /bin/sleep\n{text}")
    pool.run("submit", str(pool.root / "it.sub"))


def test_what_a_job_requires_is_asked_of_the_free_slot_alone(make_pool: Callable[[str], Pool]) -> None:
    """Not of the slot that was carved for it, claimed, and about to run it; nor of the job as its start changes it."""
    pool = make_pool(f"{QUICK}NUM_CPUS = 16\nMEMORY = 64000\nSTART = TARGET.ByType =!= true || SlotTypeID == 1\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    for requirements in CASES["requirements"]:
        submit(pool, f"arguments = 0\nrequirements = {requirements}\nrequest_memory = 10\nqueue\n")
    submit(pool, "arguments = 0\nmy.ByType = true\nrequest_memory = 10\nqueue 2\n")
    pool.until("all have run", lambda: not pool.json("q"))
    history = pool.json("history")
    assert len(history) == len(CASES["requirements"]) + 2
    assert [ad["NumShadowStarts"] for ad in history] == [1] * len(history)


@pytest.mark.parametrize("case", CASES["consumption"][:3], ids=lambda case: json.dumps(case["knobs"]))
def test_a_consumption_policy_fills_the_slot(make_pool: Callable[[str], Pool], case: dict[str, Any]) -> None:
    knobs = "".join(f"SLOT_TYPE_1_{name} = {value}\n" for name, value in case["knobs"].items())
    pool = make_pool(f"{QUICK}NUM_CPUS = 8\nMEMORY = 16000\nCONSUMPTION_POLICY = true\n{knobs}")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    submit(pool, "arguments = 3600\nqueue 6\n")

    def running() -> int:
        return len(pool.json("q", "-constraint", "JobStatus == 2"))

    def slots() -> list[list[int]]:
        return sorted([ad["Cpus"], ad["Memory"]] for ad in pool.json("status", "-constraint", "DynamicSlot =?= true"))

    pool.until("as many run as on HTCondor", lambda: running() >= len(case["slots"]))
    pool.until("their slots are advertised", lambda: slots() == case["slots"])


def test_a_slot_that_refuses_twice_is_left_out_and_the_job_says_why(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(f"{QUICK}NUM_CPUS = 2\nSTART = TARGET.CurrentHosts =!= 1\nSLOTWISE_REFUSED_MATCH_DELAY = 3600\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    submit(pool, "arguments = 0\nqueue\n")

    def job() -> dict[str, Any]:
        (ad,) = pool.json("q")
        found: dict[str, Any] = ad
        return found

    pool.until("two starts have failed", lambda: job().get("NumFailedStarts", 0) >= 2)
    pool.until("a cycle finds nothing for it", lambda: job().get("LastRejMatchReason"))
    ad = job()
    reason = "the machine's Requirements do not accept the job"
    assert (ad["NumFailedStarts"], ad["LastFailedStartReason"]) == (2, reason)
    assert ad["LastFailedStartSlot"].startswith("slot1")
    assert reason in pool.run("analyze", "1.0").stdout
    explained = pool.run("q", "-better-analyze", "1.0").stdout
    assert "Last failed start: " in explained and f"Reason for last start failure: {reason}\n" in explained
    log = (pool.home.log / "SchedLog").read_text()
    assert log.count("refused to activate run 1.0#") == 2
    assert f"is not asked again for 3600 s for jobs like 1.0: refused 2 times in a row: {reason}" in log
    pool.config_file.write_text(pool.config_file.read_text().replace("=!= 1", "=!= 7"))
    pool.run("reconfig")
    pool.until("it has run after all", lambda: not pool.json("q"))


def test_a_job_that_the_negotiators_configuration_keeps_out_says_so(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(f"{QUICK}NUM_CPUS = 2\nNEGOTIATOR_JOB_CONSTRAINT = JobPrio > 5\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    submit(pool, "arguments = 0\nqueue\n")
    sentences = {
        "NEGOTIATOR_JOB_CONSTRAINT": "NEGOTIATOR_JOB_CONSTRAINT keeps it out: JobPrio > 5 is not true for the job.",
        "NEGOTIATOR_SLOT_CONSTRAINT": "NEGOTIATOR_SLOT_CONSTRAINT keeps out all slots that match: JobPrio > 5 is not"
        " true for them.",
        "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT": "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT counts 0 of 1 slots,",
    }
    knob = "NEGOTIATOR_JOB_CONSTRAINT"
    for other, sentence in sentences.items():
        pool.config_file.write_text(pool.config_file.read_text().replace(f"{knob} =", f"{other} ="))
        knob = other
        pool.run("reconfig")
        pool.until(
            f"analyze names {knob}",
            lambda said=sentence: said in pool.run("analyze", "1.0").stdout,
        )
        explained = pool.run("q", "-better-analyze", "1.0").stdout
        assert f"\n\n{sentence}" in explained, explained
    pool.config_file.write_text(pool.config_file.read_text().replace(f"{knob} =", "UNUSED_CONSTRAINT ="))
    pool.run("reconfig")
    pool.until("it has run", lambda: not pool.json("q"))


def test_a_job_that_its_access_point_keeps_back_says_so(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(f"{QUICK}NUM_CPUS = 2\nSTART_VANILLA_UNIVERSE = JobPrio > 5\n")
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    submit(pool, "arguments = 0\nqueue\n")
    pool.until("a cycle has passed it over", lambda: "KeptBackReason" in pool.json("q")[0])
    reason = "START_VANILLA_UNIVERSE is not true for it: JobPrio > 5"
    assert f"Its access point asks for no slots for it now: {reason}.\n" in pool.run("analyze", "1.0").stdout
    assert f"Kept back by its access point: {reason}\n" in pool.run("q", "-better-analyze", "1.0").stdout
    assert f"Kept back by its access point: {reason}\n" in pool.run("q", "-analyze", "1.0").stdout
    pool.run("prio", "-p", "7", "1.0")
    pool.until("it has run", lambda: not pool.json("q"))

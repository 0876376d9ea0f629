"""The configuration templates that concern an execution point, from ``use`` to what a slot does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree
from slotwise.config import load
from slotwise.model.resources import Resources
from slotwise.startd.policy.expressions import POLICY_KNOBS, Policy, Timers
from slotwise.startd.policy.slot_config import SlotConfig
from slotwise.startd.settings import slot_types
from slotwise.startd.slot import events as ev
from slotwise.startd.slot_types.layout import plan

from tests.support.configured import configured
from tests.support.owner_days import Owner, days

MACHINE = Resources(8, 8192, 800_000, 8000)
POLICIES = (
    "ALWAYS_RUN_JOBS", "DESKTOP", "DESKTOP_HOURS", "DESKTOP_HOURS(7, 18, 1, 5)", "DESKTOP_IDLE", "DESKTOP_IDLE(8, 17)",
    "UWCS_DESKTOP", "LIMIT_JOB_RUNTIMES", "LIMIT_JOB_RUNTIMES(60)", "PREEMPT_IF_RUNTIME_EXCEEDS(60)",
    "PREEMPT_IF_CPUS_EXCEEDED", "PREEMPT_IF_MEMORY_EXCEEDED", "PREEMPT_IF_DISK_EXCEEDED", "HOLD_IF_RUNTIME_EXCEEDS(60)",
    "HOLD_IF_CPUS_EXCEEDED", "HOLD_IF_MEMORY_EXCEEDED", "HOLD_IF_DISK_EXCEEDED", "STARTD_PUBLISH_CpusUsage",
    "PREEMPT_IF(TOO_MUCH)", "WANT_HOLD_IF(TOO_MUCH, 7, it was too much)",
)  # fmt: skip


def read(directory: Path, text: str) -> Any:
    """The configuration of a startd."""
    path = directory / "condor_config"
    path.write_text("NUM_CPUS = 8\n" + text)
    return load(str(path), subsystem="STARTD", env={}, home=None)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_one(tmp_path: Path, name: str) -> None:
    config = read(tmp_path, f"TOO_MUCH = TotalJobRunTime > 9\nuse POLICY : {name}\n")
    policy = Policy(SlotConfig(config, 1), Timers())
    usual = Policy(SlotConfig(configured(), 1), Timers())
    changed = {knob for knob in POLICY_KNOBS if policy.texts[knob] != usual.texts[knob]}
    assert changed or name.startswith(("ALWAYS", "STARTD"))
    for knob in ("PREEMPTION_REQUIREMENTS", "PREEMPTION_RANK", "NEGOTIATOR_PRE_JOB_RANK", "NEGOTIATOR_POST_JOB_RANK"):
        text = config.get(knob)
        if text and text.strip():
            ExprTree(text)  # what the negotiator makes of it is its affair, but it must be an expression


def test_jobs_that_always_run(tmp_path: Path) -> None:
    owner = Owner(typing=((1, 24),), computing=((1, 24),))
    it = days(tmp_path, "NUM_SLOTS = 1\nuse POLICY : Always_Run_Jobs\n", owner)
    it.run("slot1")
    it.until(30)
    assert it.place("slot1") == "Claimed/Busy"
    it.apply("slot1", ev.VacateCommanded(fast=False))
    it.until(60)
    assert it.place("slot1") == "Claimed/Retiring", "its retirement outlasts everything"


@pytest.mark.parametrize(
    ("template", "kinds", "first"),
    [
        ("PartitionableSlot", ["Partitionable"], (8, 8192)),
        ("PartitionableSlot(2, cpus=50%, memory=1G)", ["Partitionable"], (4, 1024)),
        ("StaticSlots", ["Static"] * 8, (1, 1024)),
        ("StaticSlots(1, 4)", ["Static"] * 4, (2, 2048)),
        ("StaticSlots(3, 2, cpus=1, memory=25%)", ["Static"] * 2, (1, 2048)),
    ],
)
def test_slots_by_template(tmp_path: Path, template: str, kinds: list[str], first: tuple[int, int]) -> None:
    layout = plan(MACHINE, slot_types(read(tmp_path, f"use FEATURE : {template}\n"), MACHINE))
    assert [str(slot.kind) for slot in layout] == kinds
    assert (layout[0].resources.cpus, layout[0].resources.memory_mib) == first
    assert not any(slot.broken for slot in layout)


def test_a_building_block_holds_with_its_subcode_and_text(tmp_path: Path) -> None:
    text = "TOO_MUCH = TotalJobRunTime > 600\nuse POLICY : WANT_HOLD_IF(TOO_MUCH, 7, it was too much)\n"
    it = days(tmp_path, "NUM_SLOTS = 1\nMaxJobRetirementTime = 36000\nWANT_SUSPEND = true\n" + text, Owner())
    it.run("slot1")
    it.until(0.15)
    assert it.place("slot1") == "Claimed/Busy"
    it.until(0.2)
    (kill, *_) = it.kills
    assert (kill.cause.hold, kill.cause.subcode, kill.cause.reason) == (True, 7, "it was too much")


def test_cpu_usage_is_told_of_idle_slots_too(tmp_path: Path) -> None:
    it = days(tmp_path, "NUM_SLOTS = 1\nuse POLICY : STARTD_PUBLISH_CpusUsage\n", Owner())
    assert "CpusUsage" in it.ad("slot1")
    it.run("slot1")
    it.use("slot1", CpusUsage=1.5)
    assert it.ad("slot1")["CpusUsage"] == 1.5, "what the starter measures of the job is better"


@pytest.mark.parametrize(
    ("knobs", "mentioned"),
    [
        ({"PREEMPT": "SUSPEND && WANT_HOLD"}, {"SUSPEND", "WANT_HOLD"}),
        ({"PREEMPT": "MY.suspend"}, {"SUSPEND"}),
        ({"PREEMPT_JAVA": "Suspend"}, {"SUSPEND"}),
        ({"PREEMPT": "TARGET.Suspend =?= true"}, set()),  # the job's
        ({"PREEMPT": 'Note == "SUSPEND and KILL"'}, set()),  # a text
        ({"PREEMPT": "START && RANK > 1"}, set()),  # in every ad
        ({"PREEMPT": 'eval("SUSPEND")'}, {"SUSPEND"}),
        ({"PREEMPT": 'eval(strcat("SUS", "PEND"))'}, {"SUSPEND"}),
        (
            {"PREEMPT": "eval(Note)"},
            set(POLICY_KNOBS) - {"START", "RANK", "MAXJOBRETIREMENTTIME", "MACHINEMAXVACATETIME"},
        ),
    ],
)
def test_knobs_that_policy_expressions_read_are_attributes(knobs: dict[str, str], mentioned: set[str]) -> None:
    policy = Policy(SlotConfig(configured(**{"PREEMPT": "False", **knobs}), 1), Timers())
    assert policy.mentioned.keys() == mentioned

"""The manual's examples at work: each is driven to what it does to a slot or a job, here or by another test."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.config import Config, load
from slotwise.cron import jobs as cron
from slotwise.defrag import rules
from slotwise.startd.fetch import schedule
from slotwise.startd.host.outbox import Granted
from slotwise.startd.monitor import sampler
from slotwise.startd.settings import machine_resources, slot_types
from slotwise.startd.slot import events as ev
from slotwise.startd.slot_types.layout import plan

from tests.conformance.test_manual_examples import EXAMPLES
from tests.support.manual import MACROS
from tests.support.owner_days import Days, Owner, days
from tests.support.startd_point import DETECTED, Point, job, point

TESTS = Path(__file__).parents[1]
BY_NAME = {example.name: example for example in EXAMPLES}
AWAY, HERE = Owner(), Owner(typing=((0, 48),), computing=((0, 48),))

#: Examples whose effect another test drives.
ELSEWHERE = {
    "virtual machines": "unit/test_virtual_machines.py::test_a_machine_of_the_manuals_knobs",
    "slot types with constraints on GPUs": "unit/startd/test_claiming.py::test_a_slot_type_may_name_devices",
    "consumption policy": "unit/startd/test_claiming.py::test_a_consumption_policy_decides_what_is_taken",
    "quotas": "pool/test_negotiator.py::test_groups_are_charged_for_what_they_run_and_keep_to_their_quota",
    "backfill with BOINC": "pool/test_backfill.py::test_filler_work_makes_room_for_jobs_and_ends_with_its_startd",
    "job transforms": "service/schedd/test_submit_rules.py::test_the_manuals_accounting_groups_come_from_a_map",
    "submit requirements": "service/schedd/test_submit_rules.py::test_a_requirement_refuses_the_whole_submission",
    "submit warnings": "service/schedd/test_submit_rules.py::test_warnings_reach_the_user_and_the_event_log",
    "containers": "host/test_apptainer.py::test_the_administrator_puts_jobs_into_containers",
    "hooks that prepare jobs": "host/test_hooks.py::test_a_hook_prepares_the_job_and_another_hears_of_its_end",
}
#: Examples of which only the values are looked at (test_manual_examples), and why.
VALUES_ONLY = {
    "background slot (6.8)": "VirtualMachineID and vm1_Activity have been SlotID and slot1_Activity since version 7",
    "dynamic quotas of a hierarchy, with surplus": "GroupQuotaInUse is no attribute of HTCondor's negotiator either",
}

Drive = Callable[[Path], None]
DRIVES: dict[str, Drive] = {}


def drives(name: str) -> Callable[[Drive], Drive]:
    """Marks what drives the example of a name."""

    def mark(function: Drive) -> Drive:
        DRIVES[name] = function
        return function

    return mark


def text_of(name: str) -> str:
    """An example with the macros that it takes for granted."""
    return (MACROS if BY_NAME[name].macros else "") + BY_NAME[name].text


def machine(tmp_path: Path, name: str, owner: Owner = AWAY, slots: int = 1, more: str = "") -> Days:
    """A machine with an example's configuration, and ``slots`` static slots (0: what the example says)."""
    wanted = f"NUM_SLOTS = {slots}\n" if slots else ""
    return days(tmp_path, text_of(name) + "\n" + wanted + more, owner)


def configuration(tmp_path: Path, name: str) -> Config:
    """An example as a startd reads it."""
    path = tmp_path / "condor_config"
    path.write_text("NUM_CPUS = 4\n" + text_of(name))
    return load(path, subsystem="STARTD", env={})


def takes(d: Days, slot: str = "slot1", **attributes: object) -> bool:
    """Whether a slot is given to a job."""
    return isinstance(d.request(slot, job(**attributes)), Granted)


@drives("always run")
def always_run(tmp_path: Path) -> None:
    d = machine(tmp_path, "always run", HERE)
    d.run("slot1")
    d.until(20)
    assert d.place("slot1") == "Claimed/Busy"


def current_rank(tmp_path: Path, name: str, **attributes: object) -> object:
    """CurrentRank of a slot that such a job has."""
    d = machine(tmp_path, name)
    d.run("slot1", wanted=job(**attributes))
    return d.ad("slot1").eval("CurrentRank")


@drives("rank prefers a group")
def rank_of_a_group(tmp_path: Path) -> None:
    ranks = [current_rank(tmp_path, "rank prefers a group", Owner=name) for name in ("tyner", "miles")]
    assert ranks == [1, 0]


@drives("rank prefers the owner of the machine")
def rank_of_an_owner(tmp_path: Path) -> None:
    name = "rank prefers the owner of the machine"
    assert [current_rank(tmp_path, name, Owner=who) for who in ("jones", "garrison", "miles")] == [1, 10, 0]


@drives("rank by size")
def rank_by_size(tmp_path: Path) -> None:
    assert current_rank(tmp_path, "rank by size", ImageSize=77) == 77


@drives("start for one user only")
def one_user_only(tmp_path: Path) -> None:
    d = machine(tmp_path, "start for one user only")
    assert not takes(d, Owner="tyner")
    assert takes(d, Owner="coltrane")
    assert not takes(machine(tmp_path, "start for one user only", HERE), Owner="coltrane")


@drives("start for one user always")
def one_user_always(tmp_path: Path) -> None:
    d = machine(tmp_path, "start for one user always", HERE)
    assert not takes(d, Owner="tyner")
    assert takes(d, Owner="coltrane")


@drives("suspend except for vanilla jobs")
def suspend_except_vanilla(tmp_path: Path) -> None:
    for universe, place in ((5, "Claimed/Busy"), (10, "Claimed/Suspended")):
        d = machine(tmp_path, "suspend except for vanilla jobs", Owner(typing=((1, 3),)))
        d.run("slot1", wanted=job(JobUniverse=universe))
        d.until(2)
        assert d.place("slot1") == place


@drives("default policy")
def default_policy(tmp_path: Path) -> None:
    d = machine(tmp_path, "default policy", HERE)
    d.run("slot1")
    d.until(20)
    assert d.place("slot1") == "Claimed/Busy"


@drives("test job")
def coltranes_job(tmp_path: Path) -> None:
    for who, stays in (("coltrane", True), ("tyner", False)):
        d = machine(tmp_path, "test job", Owner(typing=((1, 30),)))
        d.run("slot1", wanted=job(Owner=who))
        d.until(2)
        assert (d.place("slot1") == "Claimed/Busy") is stays


@drives("time of day")
def time_of_day(tmp_path: Path) -> None:
    d = machine(tmp_path, "time of day")
    d.until(10)
    assert not takes(d)
    d.until(18)
    assert takes(d)


@drives("desktops and others")
def desktops_and_others(tmp_path: Path) -> None:
    d = machine(tmp_path, "desktops and others", Owner(typing=((1, 1.1),)))
    assert d.ad("slot1").eval("IsDesktop") is True
    d.run("slot1", wanted=job(ImageSize=1000))
    d.until(1.05)
    assert d.place("slot1") == "Claimed/Suspended"


@drives("desktops by the former name of STARTD_ATTRS (6.8)")
def desktops_by_the_former_name(tmp_path: Path) -> None:
    name = "desktops by the former name of STARTD_ATTRS (6.8)"
    assert machine(tmp_path, name).ad("slot1").eval("IsDesktop") is True
    assert [takes(machine(tmp_path, name, owner)) for owner in (AWAY, HERE)] == [True, False]


@drives("suspendable slots")
def suspendable_slots(tmp_path: Path) -> None:
    d = machine(tmp_path, "suspendable slots", slots=0)
    assert not takes(d, "slot1", IsSuspendableJob=True)
    d.run("slot3", wanted=job(IsSuspendableJob=True))
    d.run("slot1", "2.0#1")
    d.until(0.1)
    assert (d.place("slot1"), d.place("slot3")) == ("Claimed/Busy", "Claimed/Suspended")


@drives("interactive jobs on one slot")
def interactive_jobs(tmp_path: Path) -> None:
    d = machine(tmp_path, "interactive jobs on one slot", slots=2)
    assert [takes(d, slot, InteractiveJob=True) for slot in ("slot2", "slot1")] == [False, True]
    assert not takes(machine(tmp_path, "interactive jobs on one slot", slots=2), "slot1")
    assert current_rank(tmp_path, "interactive jobs on one slot", InteractiveJob=True) == 1


@drives("policies per slot")
def policies_per_slot(tmp_path: Path) -> None:
    d = machine(tmp_path, "policies per slot", slots=2, more="WANT_SUSPEND = True\nCONTINUE = False\n")
    d.run("slot1")
    d.run("slot2", "2.0#1")
    d.until(0.1)
    assert (d.place("slot1"), d.place("slot2")) == ("Claimed/Suspended", "Claimed/Busy")


@drives("retirement ends for better jobs")
def retirement(tmp_path: Path) -> None:
    """PreemptingRank is not there while nobody preempts: the job has its hour, its time to vacate included."""
    owner, more = Owner(typing=((0.1, 9),)), "PREEMPT = KeyboardIdle < 60\n"
    d = machine(tmp_path, "retirement ends for better jobs", owner, more=more)
    d.run("slot1")
    d.until(0.8)
    assert d.place("slot1") == "Claimed/Retiring"
    d.until(1.1)
    assert d.place("slot1") not in ("Claimed/Retiring", "Claimed/Busy")


@drives("two days of retirement")
def two_days(tmp_path: Path) -> None:
    d = machine(tmp_path, "two days of retirement", Owner(typing=((1, 100),)), more="PREEMPT = KeyboardIdle < 60\n")
    d.poll_s = 600
    d.run("slot1")
    d.until(47)
    assert d.place("slot1") == "Claimed/Retiring"
    d.until(49)
    assert d.place("slot1") != "Claimed/Retiring"


@drives("no preemption")
def no_preemption(tmp_path: Path) -> None:
    d = machine(tmp_path, "no preemption", HERE)
    d.run("slot1")
    d.until(20)
    assert d.place("slot1") == "Claimed/Busy"


@drives("UWCS policy (6.8)")
def uwcs(tmp_path: Path) -> None:
    d = machine(tmp_path, "UWCS policy (6.8)", Owner(typing=((1, 30),)))
    d.run("slot1", wanted=job(ImageSize=1000))
    d.until(2)
    places = [event.split(" ", 3)[3] for event in d.events]
    assert places[:4] == ["Unclaimed/Idle", "Claimed/Busy", "Claimed/Suspended", "Preempting/Vacating"]


@drives("rank by owner, then by size")
def rank_by_owner_and_size(tmp_path: Path) -> None:
    """As it is printed it multiplies a name: an error, which counts as 0. It works with the parenthesis moved."""
    name = "rank by owner, then by size"
    assert current_rank(tmp_path, name, Owner="coltrane", ImageSize=77) == 0
    ranks = []
    for who in ("coltrane", "miles"):
        meant = text_of(name) + 'RANK = ((Owner == "coltrane") * 1000000000000) + Imagesize\nNUM_SLOTS = 1\n'
        d = days(tmp_path, meant, AWAY)
        d.run("slot1", wanted=job(Owner=who, ImageSize=77))
        ranks.append(d.ad("slot1").eval("CurrentRank"))
    assert ranks == [1000000000077, 77]


@drives("rank without parentheses (6.2)")
def rank_without_parentheses(tmp_path: Path) -> None:
    """The chapter of 6.8 has put them in: without them names are added, which is an error and counts as 0."""
    assert current_rank(tmp_path, "rank without parentheses (6.2)", Owner="garrison") == 0


@drives("owner state of a desktop")
def owner_state(tmp_path: Path) -> None:
    for owner, operator, place in (
        (HERE, "&&", "Owner/Idle"),
        (HERE, "||", "Unclaimed/Idle"),
        (AWAY, "&&", "Unclaimed/Idle"),
    ):
        text = text_of("owner state of a desktop").replace("&&", operator)
        d = days(tmp_path, text + "NUM_SLOTS = 1\n", owner)
        d.until(0.1)
        assert d.place("slot1") == place


@drives("suspend vanilla jobs, too (6.2)")
def suspend_vanilla(tmp_path: Path) -> None:
    d = machine(tmp_path, "suspend vanilla jobs, too (6.2)", Owner(typing=((1, 3),)))
    d.run("slot1")
    d.until(2)
    assert d.place("slot1") == "Claimed/Suspended"


@drives("benchmarks every four hours")
def benchmarks(tmp_path: Path) -> None:
    benchmarks_run(tmp_path, "benchmarks every four hours")


@drives("benchmarks by a timer (6.2, 6.8)")
def benchmarks_by_a_timer(tmp_path: Path) -> None:
    benchmarks_run(tmp_path, "benchmarks by a timer (6.2, 6.8)")


def benchmarks_run(tmp_path: Path, name: str) -> None:
    """At once, and four hours after that again."""
    d = point(NUM_SLOTS="1", RunBenchmarks=configuration(tmp_path, name).get_str("RunBenchmarks"))
    assert d.place("slot1") == "Unclaimed/Benchmarking"
    d.it.ads.machine["LastBenchmark"] = int(d.now)
    d.poll()
    d.apply("slot1", ev.BenchmarksDone())
    d.poll(after=4 * 3600 - 60)
    assert d.place("slot1") == "Unclaimed/Idle"
    d.poll(after=60)
    assert d.place("slot1") == "Unclaimed/Benchmarking"


def places(d: Days, hours: float, **attributes: object) -> list[str]:
    """Where slot1 is one after the other while such a job runs and time passes."""
    d.run("slot1", wanted=job(**attributes))
    d.until(hours)
    return [event.split(" ", 3)[3] for event in d.events]


@drives("default policy (6.2)")
def default_policy_of_62(tmp_path: Path) -> None:
    found = places(machine(tmp_path, "default policy (6.2)", Owner(typing=((1, 30),))), 2)
    assert found[:4] == ["Unclaimed/Idle", "Claimed/Busy", "Claimed/Suspended", "Preempting/Vacating"]
    assert not takes(machine(tmp_path, "default policy (6.2)", HERE))


@drives("CS policy (6.2)")
def cs(tmp_path: Path) -> None:
    """Small jobs are suspended, medium ones vacate at once, big ones are killed; vanilla jobs are always suspended."""
    assert not takes(machine(tmp_path, "CS policy (6.2)", HERE))
    for kib, universe, next_place, killed in (
        (100, 10, "Claimed/Suspended", False),
        (20 * 1024, 10, "Preempting/Vacating", False),
        (40 * 1024, 10, "Unclaimed/Idle", True),
        (40 * 1024, 5, "Claimed/Suspended", False),
    ):
        d = machine(tmp_path, "CS policy (6.2)", Owner(typing=((1, 30),)))
        assert places(d, 1.05, ImageSize=kib, JobUniverse=universe)[1:3] == ["Claimed/Busy", next_place]
        assert (bool(d.kills) and d.kills[0].fast) is killed


@drives("test job on the CS policy (6.2)")
def coltranes_job_on_the_cs_policy(tmp_path: Path) -> None:
    name = "test job on the CS policy (6.2)"
    assert takes(machine(tmp_path, name, HERE), Owner="coltrane")
    assert not takes(machine(tmp_path, name, HERE), Owner="tyner")
    for who, stays in (("coltrane", True), ("tyner", False)):
        d = machine(tmp_path, name, Owner(typing=((1, 30),)))
        d.run("slot1", wanted=job(Owner=who, ImageSize=100))
        d.until(2)
        assert (d.place("slot1") == "Claimed/Busy") is stays


@drives("slot types")
def slot_types_of_all_forms(tmp_path: Path) -> None:
    """4 cores and 256 MiB: types 1 to 3 are halves, 4 to 6 quarters."""
    for number in range(1, 7):
        part = 2 if number <= 3 else 4
        d = machine(tmp_path, "slot types", slots=0, more=f"MEMORY = 256\nNUM_SLOTS_TYPE_{number} = 2\n")
        for slot in ("slot1", "slot2"):
            assert (d[slot].total.cpus, d[slot].total.memory_mib) == (4 // part, 256 // part)
            assert d[slot].total.swap_kib == DETECTED["TotalVirtualMemory"] // 4
            assert d[slot].total.disk_kib == DETECTED["TotalDisk"] // part


@drives("an amount of memory in all forms")
def amount_of_memory(tmp_path: Path) -> None:
    for number in range(1, 5):
        more = f"MEMORY = 128\nNUM_SLOTS_TYPE_{number} = 2\n"
        d = machine(tmp_path, "an amount of memory in all forms", slots=0, more=more)
        assert [d[slot].total.memory_mib for slot in ("slot1", "slot2")] == [64, 64]


@drives("the resources that a slot type does not name")
def resources_not_named(tmp_path: Path) -> None:
    name = "the resources that a slot type does not name"
    d = machine(tmp_path, name, slots=0, more="NUM_SLOTS_TYPE_1 = 1\nNUM_SLOTS_TYPE_2 = 1\n")
    assert d["slot1"].total == d["slot2"].total
    assert (d["slot1"].total.cpus, d["slot1"].total.memory_mib) == (1, DETECTED["DetectedMemory"] // 2)
    assert d["slot1"].total.disk_kib == DETECTED["TotalDisk"] // 2


@drives("a partitionable slot of the whole machine")
def partitionable_slot(tmp_path: Path) -> None:
    """10 cores and 10240 MiB, and a job that asks for 3 and 1024."""
    name = "a partitionable slot of the whole machine"
    d = machine(tmp_path, name, slots=0, more="NUM_CPUS = 10\nMEMORY = 10240\n")
    d.claim("slot1", job(RequestCpus=3, RequestMemory=1024, RequestDisk=10240))
    left = {name: d.ad("slot1").eval(name) for name in ("Cpus", "Memory", "Disk")}
    assert left == {"Cpus": 7, "Memory": 9216, "Disk": DETECTED["TotalDisk"] - 10240}
    assert {name: d.ad("slot1_1").eval(name) for name in ("Cpus", "Memory")} == {"Cpus": 3, "Memory": 1024}


@drives("an attribute of the administrator's")
def administrators_attribute(tmp_path: Path) -> None:
    d = machine(tmp_path, "an attribute of the administrator's", slots=2)
    assert [d.ad(slot).eval("GenomeDBPath") for slot in ("slot1", "slot2")] == ["/path/to/db"] * 2


@drives("custom resources")
def custom_resources(tmp_path: Path) -> None:
    config = configuration(tmp_path, "custom resources")
    resources = machine_resources(config, DETECTED, sampler.inventory(config))
    slots = plan(resources, slot_types(config, resources))
    amounts = [{tag.lower(): n for tag, n in slot.resources.custom.items()} for slot in slots]
    assert amounts == [{"cogs": 8, "actuator": 6}, {"cogs": 4, "actuator": 1}, {"cogs": 4, "actuator": 1}]
    d = Point(config, sampler.inventory(config))
    d.claim("slot1", job(RequestCogs=2, RequestActuator=1))
    names = ("TotalCogs", "TotalSlotCogs", "Cogs", "Actuator")
    assert [d.ad("slot1").eval(name) for name in names] == [16, 8, 6, 5]
    assert [d.ad("slot1_1").eval(name) for name in names] == [16, 2, 2, 1]


@drives("attributes per slot")
def attributes_per_slot(tmp_path: Path) -> None:
    d = machine(tmp_path, "attributes per slot", slots=3)
    assert [d.ad(slot).eval("favorite_color") for slot in ("slot1", "slot2", "slot3")] == ["blue", "green", "blue"]
    assert [d.ad(slot).eval("favorite_season") for slot in ("slot1", "slot3")] == ["spring", "summer"]


@drives("rounding of requests")
def rounding(tmp_path: Path) -> None:
    d = machine(tmp_path, "rounding of requests", slots=0)
    d.claim("slot1", job(RequestMemory=129, RequestDisk=1025))
    assert (d["slot1_1"].total.memory_mib, d["slot1_1"].total.disk_kib) == (256, 2048)


@drives("defragmentation")
def defragmentation(tmp_path: Path) -> None:
    found = rules.read(configuration(tmp_path, "defragmentation"), "cm")
    assert (rules.pace(found).per_poll, found.max_whole, found.max_draining) == (1, 20, 10)


@drives("hibernation")
def hibernation(tmp_path: Path) -> None:
    d = machine(tmp_path, "hibernation", slots=2)
    for idle_s, votes in ((9000, ["RAM", "RAM"]), (60, ["NONE", "NONE"])):
        d.now += 8000
        found = []
        for record in d.it.slots:
            d.it.ads.refresh(record, d.now)
            record.ad.update({"KeyboardIdle": idle_s, "LoadAvg": 0.0, "CondorLoadAvg": 0.0})
            found.append(d.it.settings.policy(record.slot_id, record.type_number).hibernate(record.ad, None, d.now))
        assert found == votes


@drives("startd cron")
def startd_cron(tmp_path: Path) -> None:
    found = cron.read(configuration(tmp_path, "startd cron"))
    assert [(each.name, each.mode, each.executable) for each in found.jobs] == [
        ("test", "periodic", "/opt/modules/test"),
        ("kfilter", "waitforexit", "/opt/modules/kfilter"),
        ("once", "oneshot", "/opt/modules/once"),
    ]
    assert found.log_failures


@drives("schedd cron")
def schedd_cron(tmp_path: Path) -> None:
    found = cron.read(configuration(tmp_path, "schedd cron"), cron.SCHEDD_CRON)
    assert [(each.name, each.mode, each.period_s, each.executable) for each in found.jobs] == [
        ("TEST", "periodic", 300, "/opt/modules/test"),
    ]
    assert found.environment["SCHEDD_CRON_CONFIG_VAL"] == "/usr/bin/condor_config_val"


@drives("hooks that fetch work")
def hooks_that_fetch_work(tmp_path: Path) -> None:
    d = machine(tmp_path, "hooks that fetch work", slots=4)
    settings = d.it.settings
    keywords = [settings.hook_keyword(record.slot_id, record.type_number) for record in d.it.slots]
    assert keywords == ["DATABASE", "DATABASE", "DATABASE", "WEB"]
    expression = settings.fetching(1, 0).delay
    assert expression is not None
    d.claim("slot1", job())
    for slot, seconds in (("slot1", 0), ("slot2", 300)):
        assert schedule.delay(expression.value(d.ad(slot), None, d.now)) == seconds


@drives("GPUs")
def gpus(tmp_path: Path) -> None:
    # Where HTCondor is not installed our own program runs: tests/host/test_gpus.py has devices of a pretended driver.
    path = tmp_path / "condor_config"
    path.write_text(text_of("GPUs") + "\nGPU_DISCOVERY_EXTRA = -extra -simulate:1,2\n")
    config = load(path, subsystem="STARTD", env={})
    if Path(config.get_str("MACHINE_RESOURCE_INVENTORY_GPUs").split()[0]).exists():
        pytest.skip("HTCondor's condor_gpu_discovery is installed")
    [found] = sampler.inventory(config)
    assert found.devices == ("GPU-a0223334", "GPU-b1223334") and found.properties[""]["CoresPerCU"] == "32"


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in VALUES_ONLY])
def test_effect(name: str, tmp_path: Path) -> None:
    if name in DRIVES:
        DRIVES[name](tmp_path)
        return
    file, function = ELSEWHERE[name].split("::")
    assert function in functions_of(file)


def functions_of(file: str) -> set[str]:
    """The functions of a test module."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_example_is_driven_or_listed() -> None:
    kinds = [DRIVES.keys(), ELSEWHERE.keys(), VALUES_ONLY.keys()]
    listed = [name for kind in kinds for name in kind]
    assert sorted(listed) == sorted(BY_NAME), "each in exactly one"

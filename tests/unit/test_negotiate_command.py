"""`slotwise negotiate` and `slotwise analyze` on files: formats, cycles, snapshots, messages."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.jobs import analyze
from slotwise.cli.pool import negotiate
from slotwise.errors import ConfigError, NotFoundError, SlotwiseError, UsageError
from slotwise.matchmaking.accounting_file import dump_accounting, parse_accounting
from slotwise.matchmaking.engine import Accounting, Engine, Knobs, read_long
from slotwise.matchmaking.snapshot import CycleInput, read_snapshot, snapshot_files

NOW = 1_800_000_000
SLOT = """Name = "slot{at}@{host}"
MyAddress = "<127.0.0.1:1>"
State = "Unclaimed"
Activity = "Idle"
Cpus = {cpus}
Memory = {memory}
Disk = 100000
SlotWeight = Cpus
Rank = 0.0
CurrentRank = 0.0
MachineResources = "Cpus Memory Disk"
Requirements = TARGET.RequestMemory <= MY.Memory && TARGET.RequestCpus <= MY.Cpus
"""
JOB = """ClusterId = {cluster}
ProcId = {proc}
Owner = "{owner}"
User = "{owner}@pool"
JobStatus = 1
JobUniverse = 5
QDate = 1
RequestCpus = 1
RequestMemory = {memory}
RequestDisk = 10
Requirements = TARGET.Memory >= RequestMemory
Rank = 0.0
"""


class Shell:
    """Runs commands in a directory of their own."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def write(self, name: str, text: str) -> None:
        (self.where / name).write_text(text)

    def pool(self, slots: int = 4, jobs: int = 3, memory: int = 500) -> None:
        texts = [SLOT.format(at=at, host="h", cpus=1, memory=1000) for at in range(1, slots + 1)]
        self.write("slots.ads", "\n".join(texts))
        lines = [JOB.format(cluster=1, proc=proc, owner="ann", memory=memory) for proc in range(jobs)]
        self.write("jobs.ads", "\n".join(lines))

    def run(self, command: Any, *args: str) -> str:
        out = io.StringIO()
        inv = Invocation(self.where, {}, io.StringIO(), out, io.StringIO())
        assert command.main([*args, "--slots", "slots.ads", "--jobs", "jobs.ads"], inv) == 0
        return out.getvalue()

    def json(self, command: Any, *args: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(command, *args, "--json"))
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.pool()
    return made


def test_the_json_form_is_that_of_the_manual(shell: Shell) -> None:
    report = shell.json(negotiate, "--now", str(NOW))
    assert {"matches", "rejections", "submitters", "groups", "timings", "peak_rss_mb"} <= set(report)
    assert {"ingest_s", "prepare_s", "match_s", "total_s"} <= set(report["timings"])
    first = report["matches"][0]
    assert (first["job"], first["slot"], first["preempts"]) == ("1.0", "slot1@h", None)
    assert {"name", "priority", "factor", "share", "limit", "matched"} <= set(report["submitters"][0])
    assert report["submitters"][0]["name"] == "ann@pool"


def test_the_table_names_jobs_slots_and_shares(shell: Shell) -> None:
    text = shell.run(negotiate, "--now", str(NOW))
    assert "3 matches" in text
    assert "slot1@h" in text
    assert "100.0%" in text


def test_matched_slots_stay_busy_in_later_cycles(shell: Shell) -> None:
    shell.pool(slots=4, jobs=9)
    report = shell.json(negotiate, "--now", str(NOW), "--cycles", "3")
    assert len(report["matches"]) == 4
    assert len({match["slot"] for match in report["matches"]}) == 4


def test_machines_that_sleep_come_last_and_each_further_job_wakes_another(shell: Shell) -> None:
    awake = SLOT.format(at=1, host="awake", cpus=1, memory=1000)
    asleep = [SLOT.format(at=1, host=host, cpus=1, memory=1000) + "Offline = true\n" for host in ("b", "c", "d")]
    asleep[0] += "WakeupFailures = 2\n"
    shell.write("slots.ads", "\n".join([*asleep, awake]))

    def slots_of(*more: str) -> list[str]:
        return [match["slot"] for match in shell.json(negotiate, "--now", str(NOW), *more)["matches"]]

    assert slots_of() == ["slot1@awake", "slot1@b", "slot1@c"]
    assert slots_of() == ["slot1@awake", "slot1@b", "slot1@c"], "the same in the next cycle"
    rank = "NEGOTIATOR_PRE_JOB_RANK = $(NEGOTIATOR_PRE_JOB_RANK) - 1.0e12 * (WakeupFailures ?: 0)\n"
    shell.write("config", rank)
    assert slots_of("--config", "config") == ["slot1@awake", "slot1@c", "slot1@d"], "as the guide has it"


def test_requests_that_have_grown_are_carved_as_they_are_now(shell: Shell) -> None:
    """Amounts are expressions over what the job has used; jobs that used different amounts get different slots."""
    machine = SLOT.format(at=1, host="m", cpus=8, memory=20_000) + "PartitionableSlot = true\nGPUs = 4\n"
    shell.write("slots.ads", machine.replace('"Cpus Memory Disk"', '"Cpus Memory Disk GPUs"'))
    used = "MemoryUsage = ((ResidentSetSize + 1023) / 1024)\nResidentSetSize = 3072000\n"
    used += "DiskUsage = 2000\nCpusUsage = 2.5\n"
    grown = {
        "RequestMemory": "ifThenElse(MemoryUsage =!= undefined, MAX({MemoryUsage * 3/2, 1500}), 1500)",
        "RequestDisk": "MAX({DiskUsage * 2, 50})",
        "RequestCpus": "MAX({int(CpusUsage + 0.99), 1})",
        "RequestGPUs": "ifThenElse(CpusUsage > 2, 2, 1)",
    }
    jobs = []
    for cluster, more in ((1, used), (2, "")):
        job = JOB.format(cluster=cluster, proc=0, owner="ann", memory=500)
        asked = grown if more else {"RequestMemory": grown["RequestMemory"]}
        lines = [line for line in job.splitlines() if line.partition(" ")[0] not in asked]
        jobs.append("\n".join([*lines, *(f"{name} = {text}" for name, text in asked.items()), more]))
    shell.write("jobs.ads", "\n\n".join(jobs))
    carved = {match["job"]: match["carve"] for match in shell.json(negotiate, "--now", str(NOW))["matches"]}
    assert carved["1.0"] == {"Cpus": 3, "Memory": 4608, "Disk": 4096, "GPUs": 2}, "4500 MB, in steps of 128"
    assert (carved["2.0"]["Memory"], carved["2.0"]["Cpus"]) == (1536, 1)


def test_later_cycles_carve_what_is_left(shell: Shell) -> None:
    machine = SLOT.format(at=1, host="m", cpus=8, memory=8000) + "PartitionableSlot = true\n"
    shell.write("slots.ads", machine)
    shell.write("config", "NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT = False\n")
    report = shell.json(negotiate, "--now", str(NOW), "--cycles", "2", "--config", "config")
    assert len(report["matches"]) == 1, "the whole machine went to the first"
    report = shell.json(negotiate, "--now", str(NOW))
    assert [match["carve"]["Cpus"] for match in report["matches"]] == [1.0, 1.0, 1.0]


def test_a_configuration_decides(shell: Shell) -> None:
    shell.write("config", "NEGOTIATOR_SLOT_CONSTRAINT = SlotID == 7\n")
    assert shell.json(negotiate, "--config", "config")["matches"] == []
    shell.write("config", "NEGOTIATOR_PRE_JOB_RANK = 1 +\n")
    with pytest.raises(ConfigError, match="NEGOTIATOR_PRE_JOB_RANK"):
        shell.run(negotiate, "--config", "config")


def test_missing_files_are_named(shell: Shell) -> None:
    with pytest.raises(UsageError, match=r"none\.json"):
        shell.run(negotiate, "--accounting", "none.json")
    inv = Invocation(shell.where, {}, io.StringIO(), io.StringIO(), io.StringIO())
    with pytest.raises(UsageError, match="--slots"):
        negotiate.main(["--jobs", "jobs.ads"], inv)


def test_files_from_other_systems_are_read(shell: Shell) -> None:
    usual = shell.json(negotiate)["matches"]
    daemon = 'MyType = "Collector"\nName = "c"\nCpus = 99\nRequirements = true\n'
    for name, more in (("slots.ads", daemon), ("jobs.ads", "")):
        text = (shell.where / name).read_text() + "\n" + more
        (shell.where / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert shell.json(negotiate)["matches"] == usual


def test_a_file_that_holds_no_ads_is_named(shell: Shell) -> None:
    shell.write("slots.ads", "no ad")
    with pytest.raises(UsageError, match=r"slots\.ads: line 1"):
        shell.run(negotiate)


@pytest.mark.parametrize(
    "text", ['{"submitters": [{"name": "a@d", "priority": "x"}]}', "[1]", "nonsense", '{"submitters": [3]}']
)
def test_accounting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"prio\.json"):
        parse_accounting(text, "prio.json")


def test_limits_without_bound_are_null(shell: Shell) -> None:
    shell.write("config", "NEGOTIATOR_IGNORE_USER_PRIORITIES = True\n")
    assert "Infinity" not in shell.run(negotiate, "--config", "config", "--json")


def test_repeats_are_timed(shell: Shell) -> None:
    report = shell.json(negotiate, "--repeat", "3")
    assert len(report["repeats"]) == 3


def test_accounting_is_read_from_json_and_from_userprio() -> None:
    state = parse_accounting('{"submitters": [{"name": "a@d", "priority": 4, "factor": 100, "ceiling": 7}]}')
    assert state.records["a@d"] == {"priority": 4, "factor": 100, "ceiling": 7}
    text = 'Name1 = "a@d"\nPriority1 = 400.0\nPriorityFactor1 = 100.0\nCeiling1 = 7\nName2 = "b@d"\nPriority2 = 500.0\n'
    state = parse_accounting(text + "PriorityFactor2 = 1000.0\nFloor2 = 3\n")
    assert state.records["a@d"] == {"priority": 4.0, "factor": 100.0, "ceiling": 7.0}
    assert state.records["b@d"]["priority"] == 0.5
    assert parse_accounting(dump_accounting(state)) == state
    with pytest.raises(UsageError, match="not JSON"):
        parse_accounting("{", "prio.json")


def test_a_snapshot_replays_to_the_same_outcome(shell: Shell) -> None:
    given = CycleInput(
        slots=read_long((shell.where / "slots.ads").read_bytes()),
        requests=read_long((shell.where / "jobs.ads").read_bytes(), key="job"),
        submitters=None,
        knobs=Knobs({"PRIORITY_HALFLIFE": "1000"}),
        accounting=Accounting({"ann@pool": {"priority": 3.0, "factor": 10.0, "last_update": NOW - 10}}),
        now=NOW,
    )
    first = given.run()
    again = read_snapshot(snapshot_files(given, "{}")).run()
    assert again.matches() == first.matches()
    assert again.accounting() == first.accounting()


@pytest.mark.parametrize("name", ["now", "accounting.json", "config", "jobs.ads", "slots.ads"])
def test_a_snapshot_with_a_broken_file_is_refused(shell: Shell, name: str) -> None:
    files = {"slots.ads": (shell.where / "slots.ads").read_bytes(), "jobs.ads": (shell.where / "jobs.ads").read_bytes()}
    with pytest.raises(SlotwiseError):
        read_snapshot(files | {name: b"\xff\xfe bad"})


@pytest.mark.parametrize("text", ["nan", "1e999", "soon"])
def test_a_time_that_is_none_is_refused(shell: Shell, text: str) -> None:
    with pytest.raises(UsageError, match="--now"):
        shell.run(negotiate, "--now", text)
    files = {"slots.ads": (shell.where / "slots.ads").read_bytes(), "jobs.ads": (shell.where / "jobs.ads").read_bytes()}
    with pytest.raises(UsageError, match="not a time"):
        read_snapshot(files | {"now": text.encode()})


@pytest.mark.parametrize(
    "text",
    [
        '{"records": {"a@d": {"priority": 3}}}',
        '{"submitters": [], "reservations": [1]}',
        '{"submitters": [], "remainder_times": [1]}',
        '{"submitters": [], "remainder_times": {"a": "soon"}}',
    ],
)
def test_accounting_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"prio\.json"):
        parse_accounting(text, "prio.json")


def test_an_engine_gives_what_a_new_one_gives(shell: Shell) -> None:
    slots = read_long((shell.where / "slots.ads").read_bytes())
    jobs = read_long((shell.where / "jobs.ads").read_bytes(), key="job")
    engine = Engine()
    knobs, accounting = Knobs(), Accounting()
    engine.run(slots, jobs, None, knobs, accounting, NOW)
    slots.update("slot1@h", {"Memory": 100}, [])
    warm = engine.run(slots, jobs, None, knobs, accounting, NOW).matches()
    assert warm == Engine().run(slots, jobs, None, knobs, accounting, NOW).matches()
    assert "slot1@h" not in {match.slot for match in warm}


def test_an_engine_sees_a_table_that_took_the_place_of_another(shell: Shell) -> None:
    """As after a collector came back: the same slots in a table of fewer changes than the former one had."""
    text = (shell.where / "slots.ads").read_bytes()
    jobs = read_long((shell.where / "jobs.ads").read_bytes(), key="job")
    engine, knobs, accounting = Engine(), Knobs(), Accounting()
    former = read_long(text)
    names = former.keys()
    for name in names:
        for memory in (1, 2, 3):
            former.update(name, {"Memory": memory}, [])
    assert not engine.run(former, jobs, None, knobs, accounting, NOW).matches()
    found = engine.run(read_long(text), jobs, None, knobs, accounting, NOW).matches()
    assert found and found == Engine().run(read_long(text), jobs, None, knobs, accounting, NOW).matches()


def test_analyze_names_the_clause_to_relax(shell: Shell) -> None:
    shell.pool(memory=5000)
    report = shell.json(analyze, "1.0")
    needs = report["requirements"]
    assert needs["matches"] == 0
    assert needs["relax"] == {"clause": "TARGET.Memory >= RequestMemory", "slots": 4}
    assert report["verdict"] == "No slot satisfies the job's Requirements."
    assert "Relax" in shell.run(analyze, "1")


def slots_of(shell: Shell, *lines: str) -> None:
    """Slots of which each has a line of its own, and is free."""
    texts = [SLOT.format(at=at, host="h", cpus=1, memory=1000) + line for at, line in enumerate(lines, 1)]
    shell.write("slots.ads", "\n".join(texts))


def hinted(shell: Shell, requirements: str, *more: str) -> list[dict[str, Any]]:
    job = JOB.format(cluster=1, proc=0, owner="ann", memory=26000)
    job = job.replace("TARGET.Memory >= RequestMemory", requirements) + "".join(f"{line}\n" for line in more)
    shell.write("jobs.ads", job)
    found: list[dict[str, Any]] = shell.json(analyze, "1.0")["requirements"]["hints"]
    return found


MEMORIES = ("Memory = 24105\n", "Memory = 24105\n", "Memory = 1000\n", "Memory = 24105\n", "Memory = undefined\n")


def test_analyze_tells_the_nearest_value_of_a_clause_that_no_slot_passes(shell: Shell) -> None:
    slots_of(shell, *MEMORIES)
    (hint,) = hinted(shell, "(TARGET.Memory >= RequestMemory) && TARGET.Cpus >= 1")
    assert hint["text"] == "Memory: largest is 24105 MB; 3 slots with request_memory = 24105"
    expected = {"attribute": "Memory", "relation": "largest", "wanted": 26000, "command": "request_memory"}
    assert expected.items() <= hint.items()
    assert hint["nearest"] == {"value": 24105, "slots": 3} == hint["among_rest"]
    shown = shell.run(analyze, "1.0")
    assert "What slots have instead\n  Memory: largest is 24105 MB; 3 slots with request_memory = 24105\n" in shown


@pytest.mark.parametrize(
    ("requirements", "text"),
    [
        ("RequestMemory <= TARGET.Memory", "Memory: largest is 24105 MB; 3 slots with request_memory = 24105"),
        ("Memory >= 26000", "Memory: largest is 24105 MB, of 3 slots"),
        ("TARGET.Memory >= 1.1 * MY.RequestMemory", "Memory: largest is 24105 MB, of 3 slots"),
        ("TARGET.Memory > RequestMemory", "Memory: largest is 24105 MB; 3 slots with request_memory below 24105"),
        ("TARGET.Memory <= 100", "Memory: smallest is 1000 MB, of 1 slot"),
        ("TARGET.Memory == 1024", "Memory: closest is 1000 MB, of 1 slot"),
        ('TARGET.Name == "slot3@g"', 'Name: closest is "slot3@h", of 1 slot'),
        ("TARGET.State =?= MY.Wanted", 'State: closest is "Unclaimed"; 5 slots with Wanted = "Unclaimed"'),
        ("TARGET.HasDocker", "HasDocker: no slot has Docker"),
        ('TARGET.Colour == "red"', "Colour: no slot has this attribute"),
        ("TARGET.Memory >= Grown", "Memory: largest is 24105 MB; 3 slots with Grown = 24105"),
        ("TARGET.Memory > 2 * Grown", "Memory: largest is 24105 MB, of 3 slots"),
        ("TARGET.Memory > max({ 2 * Grown, 5 })", "Memory: largest is 24105 MB, of 3 slots"),
        ("TARGET.Memory >= Larger", "Memory: largest is 24105 MB; 3 slots with Larger = 24105"),
        ("TARGET.Memory >= sum({ MY.Grown, Larger })", "Memory: largest is 24105 MB, of 3 slots"),
        ('TARGET.Memory >= int(split("30000 1")[0])', "Memory: largest is 24105 MB, of 3 slots"),
        ("TARGET.Memory >= Items[1]", "Memory: largest is 24105 MB, of 3 slots"),
        ('regexp("x", TARGET.Colour)', "Colour: no slot has this attribute"),
        ("TARGET.Memroy == 5", "Memroy: no slot has this attribute; is Memory meant?"),
        (
            'stringListMember("h", TARGET.slotwieght, ",")',
            "slotwieght: no slot has this attribute; is SlotWeight meant?",
        ),
        ("size(Statee) > 3", "Statee: no slot has this attribute; is State meant?"),
        ("stringListMember(TARGET.State, MY.Wantd)", "Wantd: the job lacks this attribute; is Wanted meant?"),
        ("TARGET.Memory > MY.Nothing", "Nothing: the job lacks this attribute"),
        ("strcat(TARGET.Memory, MY.Grown, TARGET.Unheard) == 5", "Unheard: no slot has this attribute"),
    ],
)
def test_hints_of_each_form(requirements: str, text: str, shell: Shell) -> None:
    slots_of(shell, *MEMORIES)
    grown = "Grown = ifThenElse(MemoryUsage =!= undefined, MemoryUsage * 3 / 2, 30000)"
    larger = "Larger = ifThenElse(MemoryUsage =!= undefined, max({ MemoryUsage, 1 }), max({ 26000, Grown }))"
    (hint,) = hinted(shell, requirements, 'Wanted = "Owned"', grown, larger, "Items = { 1, 30000 }")
    assert hint["text"] == text


def test_a_hint_prefers_slots_that_satisfy_the_other_conditions(shell: Shell) -> None:
    slots_of(shell, "Memory = 24105\n", "Memory = 9000\nCpus = 8\n", "Memory = 8000\nCpus = 8\n")
    (hint,) = hinted(shell, "TARGET.Memory >= RequestMemory && TARGET.Cpus >= 8")
    assert hint["nearest"] == {"value": 24105, "slots": 1} and hint["among_rest"] == {"value": 9000, "slots": 1}
    memory, cpus = hinted(shell, "TARGET.Memory >= 20000 && TARGET.Cpus >= 8")
    assert memory["nearest"] is None and memory["text"].endswith("conditions the largest is 9000 MB, of 1 slot")
    assert cpus["among_rest"] == {"value": 1, "slots": 1}


@pytest.mark.parametrize(
    "requirements", ["TARGET.Memory >= TARGET.Cpus * 1000000", "TARGET.Memory >= 5 || false", 'TARGET.Name > "zz"']
)
def test_clauses_of_other_forms_have_no_hints(requirements: str, shell: Shell) -> None:
    slots_of(shell, *MEMORIES)
    assert not hinted(shell, requirements)


def test_analyze_shows_a_condition_that_is_written_twice_once(shell: Shell) -> None:
    shell.pool(memory=5000)
    jobs = (shell.where / "jobs.ads").read_text()
    shell.write("jobs.ads", jobs.replace("TARGET.Memory >=", "TARGET.Memory >= RequestMemory && TARGET.Memory >="))
    needs = shell.json(analyze, "1.0")["requirements"]
    assert [clause["clause"] for clause in needs["clauses"]].count("TARGET.Memory >= RequestMemory") == 1
    assert needs["relax"]["slots"] == 4
    assert len(needs["unmet"]) == 1


def test_analyze_names_the_clause_by_which_slots_refuse(shell: Shell) -> None:
    text = (shell.where / "slots.ads").read_text().replace("&& TARGET.RequestCpus <= MY.Cpus", "&& TARGET.Vip =?= true")
    shell.write("slots.ads", text)
    report = shell.json(analyze, "1.0")
    assert report["requirements"]["job_accepts"] == 4
    assert report["requirements"]["refused_by"][0]["slots"] == 4
    assert "Vip" in report["requirements"]["refused_by"][0]["clause"]


def test_analyze_tells_protected_slots_from_those_that_may_be_preempted(shell: Shell) -> None:
    text = (shell.where / "slots.ads").read_text()
    held = 'State = "Claimed"\nRemoteUser = "bob@pool"\nRemoteOwner = "bob@pool"\n'
    shell.write("slots.ads", text.replace('State = "Unclaimed"\n', held))
    report = shell.json(analyze, "1.0")
    assert report["matching_slots"]["protected"] == 4
    assert report["rejections"][0]["reason"] == "PREEMPTION_REQUIREMENTS == False"
    shell.write("config", "PREEMPTION_REQUIREMENTS = RemoteUserPrio >= SubmitterUserPrio\n")
    report = shell.json(analyze, "1.0", "--config", "config")
    assert report["matching_slots"]["preemptable"] == 4
    assert report["verdict"] == (
        "The next cycle would give it slot1@h, and preempt bob@pool's job there: PREEMPTION_REQUIREMENTS permits it."
    )


def test_analyze_knows_that_rank_preempts_whatever_preemption_requirements_say(shell: Shell) -> None:
    text = (shell.where / "slots.ads").read_text().replace("Rank = 0.0\nCurrentRank = 0.0\n", "")
    held = 'State = "Claimed"\nRemoteUser = "bob@pool"\nRemoteOwner = "bob@pool"\nCurrentRank = 1.0\n'
    held += 'Rank = ifThenElse(TARGET.Owner == "ann", 2.0, 1.0)\n'
    shell.write("slots.ads", text.replace('State = "Unclaimed"\n', held))
    report = shell.json(analyze, "1.0")
    assert (report["matching_slots"]["preemptable"], report["matching_slots"]["protected"]) == (4, 0)
    assert report["verdict"].endswith("and preempt bob@pool's job there: the slot ranks this job higher.")
    shell.write("config", "PREEMPTION_REQUIREMENTS = true\n")
    shell.write("slots.ads", text.replace('State = "Unclaimed"\n', held.replace("2.0", "0.5")))
    report = shell.json(analyze, "1.0", "--config", "config")
    assert report["would_match"] is None and report["matching_slots"]["prefer_running"] == 4
    assert "whose jobs the slot ranks higher" in shell.run(analyze, "1.0", "--config", "config")


def test_analyze_names_the_constraint_that_makes_the_pool_small(shell: Shell) -> None:
    shell.write("config", 'NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT = Site =?= "x"\n')
    report = shell.json(analyze, "1.0", "--config", "config")
    assert report["would_match"] is None and report["matching_slots"]["free"] == 4
    assert report["verdict"].endswith(
        "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT counts 0 of 4 slots, and shares and quotas are parts of those:"
        ' Site =?= "x" is not true for the others.'
    )
    shell.write("config", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT = Memory > 0\n")
    assert shell.json(analyze, "1.0", "--config", "config")["would_match"] == "slot1@h"


def test_analyze_says_that_ones_own_jobs_are_on_all_slots(shell: Shell) -> None:
    text = (shell.where / "slots.ads").read_text()
    held = 'State = "Claimed"\nRemoteUser = "ann@pool"\nRemoteOwner = "ann@pool"\n'
    shell.write("slots.ads", text.replace('State = "Unclaimed"\n', held))
    report = shell.json(analyze, "1.0")
    assert report["verdict"] == "4 slots match, and all of them run jobs of ann@pool already."


def test_analyze_of_no_slots_says_no_more(shell: Shell) -> None:
    shell.write("slots.ads", "")
    assert shell.run(analyze, "1.0") == "Job 1.0 of ann@pool: There are no slots.\n"


def test_analyze_says_which_slot_a_job_would_get(shell: Shell) -> None:
    assert shell.json(analyze, "1.2")["would_match"] == "slot3@h"
    with pytest.raises(NotFoundError, match=r"9\.0"):
        shell.run(analyze, "9.0")


def test_parquet_files_hold_values_and_the_texts_of_conditions(shell: Shell) -> None:
    polars = pytest.importorskip("polars")
    shell.run(negotiate, "--parquet", "out")
    frames = {path.stem: polars.read_parquet(path) for path in (shell.where / "out").glob("*.parquet")}
    assert set(frames) == {"slots", "jobs", "matches", "rejections", "submitters", "groups"}
    for name, frame in frames.items():
        assert not {polars.Null, polars.Object} & set(frame.schema.values()), name
    slots, jobs, matches = frames["slots"], frames["jobs"], frames["matches"]
    assert slots["Memory"].dtype == polars.Int64 and slots["SlotWeight"].to_list() == [1] * len(slots)
    assert jobs["Requirements"].cast(polars.String).to_list() == ["TARGET.Memory >= RequestMemory"] * len(jobs)
    assert len(matches) == 3 and set(matches["slot"]) <= set(slots["Name"].cast(polars.String))


def test_who_has_held_jobs_only_has_no_share(shell: Shell) -> None:
    shell.pool(slots=4, jobs=4)
    held = JOB.format(cluster=2, proc=0, owner="bob", memory=500).replace("JobStatus = 1", "JobStatus = 5")
    jobs = shell.where / "jobs.ads"
    jobs.write_text(jobs.read_text() + "\n" + held)
    report = shell.json(negotiate)
    assert [(row["name"], row["share"]) for row in report["submitters"]] == [("ann@pool", 1.0)]
    assert len(report["matches"]) == 4


def test_a_constraint_on_submitters_holds_for_files(shell: Shell) -> None:
    shell.pool(slots=4, jobs=1)
    other = JOB.format(cluster=2, proc=0, owner="bob", memory=500)
    jobs = shell.where / "jobs.ads"
    jobs.write_text(jobs.read_text() + "\n" + other)
    shell.write("config", 'NEGOTIATOR_SUBMITTER_CONSTRAINT = Name == "bob@pool" && IdleJobs == 1\n')
    report = shell.json(negotiate, "--config", "config")
    assert [row["job"] for row in report["matches"]] == ["2.0"]
    assert [row["name"] for row in report["submitters"]] == ["bob@pool"]


def test_a_factor_is_never_less_than_one(shell: Shell) -> None:
    shell.pool(slots=4, jobs=1)
    shell.write("accounts", '{"submitters": [{"name": "ann@pool", "priority": 5, "factor": 0.5}]}')
    (row,) = shell.json(negotiate, "--accounting", "accounts")["submitters"]
    assert row["effective_priority"] == 5.0


@pytest.mark.parametrize(("slots", "jobs", "said"), [("jobs", "jobs", "no slot ad"), ("slots", "slots", "no job ad")])
def test_files_of_other_ads_are_refused(shell: Shell, slots: str, jobs: str, said: str) -> None:
    shell.pool()
    asked = ["--slots", f"{slots}.ads", "--jobs", f"{jobs}.ads"]
    inv = Invocation(shell.where, {}, io.StringIO(), io.StringIO(), io.StringIO())
    with pytest.raises(UsageError, match=said):
        negotiate.main(asked, inv)


def test_what_is_no_job_id_is_said_to_be_none(shell: Shell) -> None:
    shell.pool()
    with pytest.raises(UsageError, match=r"'1\.x' is not a job id"):
        shell.run(analyze, "1.x")


def test_the_user_map_of_groups_holds_for_files(shell: Shell) -> None:
    shell.pool(slots=4, jobs=3)
    shell.write("groups.map", "* pool guests\n")
    knobs = "NEGOTIATOR_CLASSAD_USER_MAP_NAMES = GROUP_PREFIX\nCLASSAD_USER_MAPFILE_GROUP_PREFIX = groups.map\n"
    shell.write(
        "config",
        knobs.replace("groups.map", str(shell.where / "groups.map")) + "GROUP_NAMES = guests\nGROUP_QUOTA_guests = 2\n",
    )
    report = shell.json(negotiate, "--config", "config")
    assert {row["submitter"] for row in report["matches"]} == {"guests.ann@pool"}
    assert len(report["matches"]) == 2

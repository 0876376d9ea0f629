"""How jobs and slots suit each other, condition by condition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree, match
from slotwise.cli.jobs import match_report as text
from slotwise.matchmaking.analysis import analyze
from slotwise.matchmaking.clauses import bare, clauses_of
from slotwise.matchmaking.engine import Accounting, Knobs
from slotwise.matchmaking.fit import Fit, Jobs, Obstacle, Slots, obstacle
from slotwise.matchmaking.hints import hints
from slotwise.matchmaking.rows import JsonObject
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.table import AdTable

_JOB = """[ ClusterId = 1; ProcId = 0; Owner = "ann"; User = "ann@x"; JobStatus = 1;
  RequestMemory = 500; RequestCpus = 2;
  Requirements = TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory && (TARGET.Fast || TARGET.Near) ]"""
NOW = 1_700_000_000


def fit(job: ClassAd, slots: Sequence[ClassAd]) -> Fit:
    return Slots(slots, NOW).fit(job)


def slot(name: str, **more: object) -> ClassAd:
    made = {"Name": name, "Arch": "X86_64", "Memory": 1000, "Cpus": 4, "Fast": True, "State": "Unclaimed"} | more
    ad = ClassAd(made)
    ad["START"] = ExprTree('TARGET.Owner != "eve"')
    ad["Requirements"] = ExprTree("START && TARGET.RequestCpus <= MY.Cpus")
    return ad


def test_every_slot_is_in_one_place() -> None:
    slots = [
        slot("free"),
        slot("small", Memory=100),
        slot("narrow", Cpus=1),
        slot("mine", State="Claimed", RemoteUser="ann@x"),
        slot("bobs", State="Claimed", RemoteUser="bob@x"),
        slot("asleep", Offline=True),
        slot("part", Memory=100, PartitionableSlot=True, TotalSlotMemory=4000, TotalSlotCpus=8),
    ]
    found = fit(ClassAd(_JOB), slots)
    places = (found.by_job, found.by_slot, found.own, found.others, found.offline, found.willing, found.drained)
    assert places == (["small", "part"], ["narrow"], ["mine"], ["bobs"], ["asleep"], ["free"], ["part"])
    assert (found.slots, found.matches) == (7, 4)
    shown = text.counts(found, "1.0", None, verbose=True)
    assert "    2 slots rejected by the job's requirements [small, part]" in shown
    assert "    1 match but serve other users [bobs]" in shown and "would match if drained" in shown
    assert text.warning(found, "1.0") == ""


def test_conditions_are_counted_alone_and_together() -> None:
    slots = [slot("a", Arch="ARM"), slot("b", Memory=1), slot("c")]
    steps = fit(ClassAd(_JOB), slots).steps
    told = [(step.number, step.text, step.matched) for step in steps]
    assert told == [
        (0, 'TARGET.Arch == "X86_64"', 2),
        (1, "TARGET.Memory >= RequestMemory", 2),
        (2, "[0] && [1]", 1),
        (3, "TARGET.Fast || TARGET.Near", 3),
    ]


def test_conditions_that_are_true_or_written_twice_are_left_out() -> None:
    job = ClassAd("[ Requirements = true && (TARGET.A > 1) && TARGET.A > 1 ]")
    assert [step.text for step in fit(job, [ClassAd({"A": 2})]).steps] == ["TARGET.A > 1"]


def test_the_conditions_of_a_slot_are_those_behind_its_names() -> None:
    assert [bare(clause) for clause in clauses_of(slot("a"))] == [
        'TARGET.Owner != "eve"',
        "TARGET.RequestCpus <= MY.Cpus",
    ]


def test_a_slots_conditions_are_counted_over_jobs() -> None:
    eve, big, ann = ClassAd(_JOB), ClassAd(_JOB), ClassAd(_JOB)
    eve["Owner"], big["RequestMemory"] = "eve", 5000
    found = Jobs([eve, big, ann], NOW).fit(slot("a"))
    assert [(step.text, step.matched) for step in found.steps] == [
        ('TARGET.Owner != "eve"', 2),
        ("TARGET.RequestCpus <= MY.Cpus", 3),
    ]
    assert (found.refused, found.refusing, found.matches) == (1, 1, 1)


def test_conditions_that_an_empty_machine_would_satisfy_are_counted() -> None:
    part = {"PartitionableSlot": True, "TotalSlotMemory": 4000, "TotalSlotCpus": 4}
    slots = [slot("carved", Memory=100, **part), slot("small", Memory=100), slot("empty", Memory=4000, **part)]
    found = fit(ClassAd(_JOB), slots)
    assert [(step.matched, step.drained) for step in found.steps] == [(3, 0), (1, 1), (3, 0)]
    assert (found.drained, found.willing) == (["carved"], ["empty"])


def test_requirements_that_are_a_number_are_true_unless_it_is_0() -> None:
    job = ClassAd(_JOB)
    for value, matches in ((1, 1), (2.5, 1), (0, 0)):
        job["Requirements"] = value
        assert fit(job, [slot("a")]).matches == matches == job.symmetric_match(slot("a"))


def test_parentheses_in_strings_close_nothing() -> None:
    assert bare(ExprTree('((a == ")" || b))')) == 'a == ")" || b'
    assert bare(ExprTree("(a) || (b)")) == "(a) || (b)"


def test_a_job_that_no_slot_takes_gets_a_warning() -> None:
    job = ClassAd(_JOB)
    assert "No slot satisfies" in text.warning(fit(job, [slot("a", Arch="ARM")]), "1.0")
    assert "rejects the job by its own" in text.warning(fit(job, [slot("a", Cpus=1)]), "1.0")
    assert "no slots" in text.warning(fit(job, []), "1.0")


def test_suggestions_name_the_nearest_value() -> None:
    job = ClassAd(_JOB)
    job["RequestMemory"] = 26000
    table = AdTable.of([slot("a", Memory=24105), slot("b", Memory=24105), slot("c", Arch="ARM")])
    shown = text.suggestions(hints(table.clause_counts(job)))
    assert shown.splitlines() == [
        "Suggestions:",
        "",
        "    Condition                       Suggestion",
        "    ---------                       ----------",
        "    TARGET.Memory >= RequestMemory  Memory: largest is 24105 MB; 2 slots with request_memory = 24105",
    ]
    assert text.suggestions([]) == ""


VALUES = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.sampled_from(["a", "ab", "b"]), st.booleans(), st.none())


@given(st.lists(VALUES, min_size=1, max_size=12), st.sampled_from([">=", "<=", "==", "=?="]), VALUES)
def test_a_job_that_asks_for_the_suggested_value_gets_that_many_slots(
    values: list[object], op: str, wanted: object
) -> None:
    job = ClassAd({"RequestX": wanted} if wanted is not None else {})
    job["Requirements"] = ExprTree(f"TARGET.X {op} MY.RequestX")
    table = AdTable.of([ClassAd({} if value is None else {"X": value}) for value in values])
    for row in table.clause_counts(job):
        if row.hint is None or row.hint.nearest is None:
            continue
        job["RequestX"] = row.hint.nearest.value
        (clause,) = table.clause_counts(job)
        assert clause.passes == row.hint.nearest.slots > 0
        assert clause.hint is None


JOB_CLAUSES = (
    "TARGET.Memory >= RequestMemory",
    "(TARGET.Cpus >= RequestCpus)",
    'Arch == "X"',
    "TARGET.Fast || Near",
    "Missing",
    "TARGET.Memory",
    "TARGET.Memory * 2 > RequestMemory",
    "error",
    "time() > 5",
)
SLOT_CLAUSES = (
    "START",
    "TARGET.RequestCpus <= MY.Cpus",
    "TARGET.RequestMemory <= Memory",
    'TARGET.Owner != "eve"',
    'State == "Unclaimed" || TARGET.User == RemoteUser',
)


@st.composite
def random_slots(draw: st.DrawFn) -> list[ClassAd]:
    made = []
    for number in range(draw(st.integers(0, 8))):
        ad = ClassAd({"Name": f"slot{number}", "Memory": draw(st.integers(0, 6)), "Cpus": draw(st.integers(0, 4))})
        ad["State"] = draw(st.sampled_from(["Claimed", "Unclaimed"]))
        ad["Arch"] = draw(st.sampled_from(["X", "Y"]))
        ad["START"] = ExprTree(draw(st.sampled_from(["true", "TARGET.RequestCpus < 3 && TARGET.RequestMemory > 1"])))
        ad["PartitionableSlot"] = draw(st.booleans())
        ad["TotalSlotMemory"] = 6
        for name, value in (("RemoteUser", "ann@x"), ("Offline", True), ("Fast", True)):
            if draw(st.booleans()):
                ad[name] = value
        ad["Requirements"] = ExprTree(" && ".join(draw(st.lists(st.sampled_from(SLOT_CLAUSES), min_size=1))))
        made.append(ad)
    return made


@st.composite
def random_job(draw: st.DrawFn) -> ClassAd:
    owner = draw(st.sampled_from(["ann", "eve"]))
    job = ClassAd({"ClusterId": 1, "ProcId": 0, "JobStatus": 1, "Owner": owner, "User": f"{owner}@x"})
    job["RequestMemory"], job["RequestCpus"] = draw(st.integers(0, 8)), draw(st.integers(0, 6))
    job["Requirements"] = ExprTree(" && ".join(draw(st.lists(st.sampled_from(JOB_CLAUSES), min_size=1))))
    return job


_VERDICTS = {
    "There are no slots.": Obstacle.NO_SLOTS,
    "No slot satisfies the job's Requirements.": Obstacle.JOB_ACCEPTS_NONE,
    "Every slot that the job would take refuses it.": Obstacle.SLOTS_REFUSE,
}


@given(random_job(), random_slots())
def test_better_analyze_and_analyze_count_alike(job: ClassAd, slots: list[ClassAd]) -> None:
    found = fit(job, slots)
    report: JsonObject = analyze(
        CycleInput(AdTable.of(slots), AdTable.of([job]), None, Knobs(), Accounting(), NOW), job
    )
    needs = report["requirements"]
    assert report["slots"] == found.slots
    assert needs["job_accepts"] == found.slots - len(found.by_job)
    assert needs["matches"] == found.matches
    assert sum(row["slots"] for row in needs["refused_by"]) >= len(found.by_slot)
    if slots:
        counted = {ExprTree(row["clause"]).canonical_hash: row["passes"] for row in needs["clauses"]}
        single = [step for step in found.steps if not step.compound]
        assert {ExprTree(step.text).canonical_hash: step.matched for step in single} == counted
    assert _VERDICTS.get(report["verdict"]) is obstacle(found.slots, found.slots - len(found.by_job), found.matches)


@given(random_job(), random_slots())
def test_fits_are_those_that_pairs_of_ads_have(job: ClassAd, slots: list[ClassAd]) -> None:
    found = fit(job, slots)
    pairs = {str(slot["Name"]): match(job, slot, now=NOW) for slot in slots}
    assert found.by_job == [name for name, pair in pairs.items() if not pair.left.accepts]
    assert found.by_slot == [name for name, pair in pairs.items() if pair.left.accepts and not pair.right.accepts]
    assert found.matches == sum(map(bool, pairs.values()))


def _by_name(*slots: ClassAd) -> AdTable:
    table = AdTable()
    for ad in slots:
        table.upsert(str(ad["Name"]), ad)
    return table


def test_constraints_of_the_administrator_are_named_before_any_other_reason() -> None:
    job = ClassAd(_JOB)
    slots = [slot("free", Near=True), slot("small", Memory=100)]
    submitter = ClassAd({"Name": "ann@x", "ScheddName": "here", "IdleJobs": 1, "RunningJobs": 0})

    def verdict(**knobs: str) -> str:
        asked = CycleInput(_by_name(*slots), AdTable.of([job]), None, Knobs(knobs), Accounting(), NOW)
        return str(analyze(asked, job)["verdict"])

    assert verdict() == "The next cycle would give it free."
    kept = verdict(NEGOTIATOR_SLOT_CONSTRAINT='Name != "free"')
    assert kept.startswith('NEGOTIATOR_SLOT_CONSTRAINT keeps out all slots that match: Name != "free"')
    assert "free" in verdict(NEGOTIATOR_SLOT_CONSTRAINT='Name != "small"')
    kept = verdict(NEGOTIATOR_JOB_CONSTRAINT="RequestMemory < 400")
    assert kept == "NEGOTIATOR_JOB_CONSTRAINT keeps it out: RequestMemory < 400 is not true for the job."
    live = CycleInput(
        _by_name(*slots), AdTable.of([]), AdTable.of([submitter]),
        Knobs({"NEGOTIATOR_SUBMITTER_CONSTRAINT": 'Name != "ann@x"'}), Accounting(), NOW,
    )  # fmt: skip
    assert "NEGOTIATOR_SUBMITTER_CONSTRAINT keeps ann@x out" in str(analyze(live, job)["verdict"])


def test_a_job_that_nobody_asks_a_slot_for_or_that_cools_down_says_so() -> None:
    job = ClassAd(_JOB)
    job["AutoClusterId"] = 7
    request = ClassAd(_JOB)
    request.update(AutoClusterId=7, Submitter="ann@x", ScheddName="here", ResourceRequestCount=1)
    submitter = ClassAd({"Name": "ann@x", "ScheddName": "here", "IdleJobs": 1, "RunningJobs": 0})

    def verdict(*requests: ClassAd) -> str:
        slots, asked = _by_name(slot("free")), AdTable.of(list(requests))
        return str(
            analyze(CycleInput(slots, asked, AdTable.of([submitter]), Knobs(), Accounting(), NOW), job)["verdict"]
        )

    assert "asks for no slots for ann@x now: START_VANILLA_UNIVERSE" in verdict()
    assert "asks for no slots" not in verdict(request)
    job["KeptBackReason"] = "MAX_JOBS_RUNNING = 3, and 3 jobs run"
    assert verdict() == "Its access point asks for no slots for it now: MAX_JOBS_RUNNING = 3, and 3 jobs run."
    other = request.copy()
    other["AutoClusterId"] = 8
    assert verdict(other) == verdict()
    assert verdict(request) == "The next cycle would give it free."  # asked for since
    del job["KeptBackReason"]
    job.update(JobCoolDownExpiration=NOW + 60, VacateReason="it was too large")
    assert verdict().startswith("It is in cool-down until ") and verdict().endswith(": it was too large.")


def test_the_last_failed_start_is_part_of_the_verdict() -> None:
    job = ClassAd(_JOB)
    job.update(
        LastFailedStartTime=NOW - 5, LastFailedStartSlot="free_1@here", LastFailedStartReason="it does not like it",
        NumFailedStarts=3, LastMatchTime=NOW - 9,
    )  # fmt: skip
    asked = CycleInput(_by_name(slot("free@here")), AdTable.of([job]), None, Knobs(), Accounting(), NOW)
    report: JsonObject = analyze(asked, job)
    assert report["failed_start"] == {
        "slot": "free_1@here", "reason": "it does not like it", "time": NOW - 5, "count": 3,
    }  # fmt: skip
    assert report["verdict"].startswith("Its last start, on free_1@here at ")
    assert "failed: it does not like it (3 starts have failed). By its ad that slot suits it" in report["verdict"]
    job["LastMatchTime"] = NOW  # it has started since
    assert analyze(asked, job)["verdict"] == "The next cycle would give it free@here."

"""How jobs and slots suit each other, condition by condition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.jobs import match_report as text
from slotwise.cli.jobs.match_analysis import accepts, bare, clauses_of, fit, steps_of
from slotwise.cli.render.ads import as_table
from slotwise.matchmaking.hints import hints

_JOB = """[ ClusterId = 1; ProcId = 0; Owner = "ann"; User = "ann@x"; JobStatus = 1;
  RequestMemory = 500; RequestCpus = 2;
  Requirements = TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory && (TARGET.Fast || TARGET.Near) ]"""


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
    found = fit(ClassAd(_JOB), slots, "ann@x")
    places = (found.by_job, found.by_slot, found.own, found.others, found.offline, found.willing, found.drained)
    assert places == (["small", "part"], ["narrow"], ["mine"], ["bobs"], ["asleep"], ["free"], ["part"])
    assert (found.slots, found.matches) == (7, 4)
    shown = text.counts(found, "1.0", None, verbose=True)
    assert "    2 slots rejected by the job's requirements [small, part]" in shown
    assert "    1 match but serve other users [bobs]" in shown and "would match if drained" in shown
    assert text.warning(found, "1.0") == ""


def test_conditions_are_counted_alone_and_together() -> None:
    slots = [slot("a", Arch="ARM"), slot("b", Memory=1), slot("c")]
    steps = fit(ClassAd(_JOB), slots, "ann@x").steps
    told = [(step.number, step.text, step.matched) for step in steps]
    assert told == [
        (0, 'TARGET.Arch == "X86_64"', 2),
        (1, "TARGET.Memory >= RequestMemory", 2),
        (2, "[0] && [1]", 1),
        (3, "TARGET.Fast || TARGET.Near", 3),
    ]


def test_conditions_that_are_true_or_written_twice_are_left_out() -> None:
    job = ClassAd("[ Requirements = true && (TARGET.A > 1) && TARGET.A > 1 ]")
    assert [step.text for step in steps_of(clauses_of(job), [job], [ClassAd({"A": 2})], drained=True)] == [
        "TARGET.A > 1"
    ]


def test_the_conditions_of_a_slot_are_those_behind_its_names() -> None:
    assert [bare(clause) for clause in clauses_of(slot("a"))] == [
        'TARGET.Owner != "eve"',
        "TARGET.RequestCpus <= MY.Cpus",
    ]
    assert not accepts(slot("a"), ClassAd({"Owner": "eve", "RequestCpus": 1}))


def test_parentheses_in_strings_close_nothing() -> None:
    assert bare(ExprTree('((a == ")" || b))')) == 'a == ")" || b'
    assert bare(ExprTree("(a) || (b)")) == "(a) || (b)"


def test_a_job_that_no_slot_takes_gets_a_warning() -> None:
    job = ClassAd(_JOB)
    assert "No slot satisfies" in text.warning(fit(job, [slot("a", Arch="ARM")], "ann@x"), "1.0")
    assert "rejects the job by its own" in text.warning(fit(job, [slot("a", Cpus=1)], "ann@x"), "1.0")
    assert "no slots" in text.warning(fit(job, [], "ann@x"), "1.0")


def test_suggestions_name_the_nearest_value() -> None:
    job = ClassAd(_JOB)
    job["RequestMemory"] = 26000
    table = as_table([slot("a", Memory=24105), slot("b", Memory=24105), slot("c", Arch="ARM")])
    shown = text.suggestions(hints(table.clause_counts(job)))
    assert shown.splitlines() == [
        "Suggestions:",
        "",
        "    Condition                       Suggestion",
        "    ---------                       ----------",
        "    TARGET.Memory >= RequestMemory  Memory: largest is 24105; 2 slots with request_memory = 24105",
    ]
    assert text.suggestions([]) == ""


VALUES = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.sampled_from(["a", "ab", "b"]), st.booleans(), st.none())


@given(st.lists(VALUES, min_size=1, max_size=12), st.sampled_from([">=", "<=", "==", "=?="]), VALUES)
def test_a_job_that_asks_for_the_suggested_value_gets_that_many_slots(
    values: list[object], op: str, wanted: object
) -> None:
    job = ClassAd({"RequestX": wanted} if wanted is not None else {})
    job["Requirements"] = ExprTree(f"TARGET.X {op} MY.RequestX")
    table = as_table([ClassAd({} if value is None else {"X": value}) for value in values])
    for row in table.clause_counts(job):
        if row.hint is None or row.hint.nearest is None:
            continue
        job["RequestX"] = row.hint.nearest.value
        (clause,) = table.clause_counts(job)
        assert clause.passes == row.hint.nearest.slots > 0
        assert clause.hint is None

"""`slotwise schedd replay`: what a schedd recorded of claims and runs, taken again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.clock import SystemClock
from slotwise.daemon.step_file import StepFile
from slotwise.errors import InvariantError
from slotwise.model.stored_form import Json
from slotwise.schedd.claims.recording import Recorder
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.transitions import ClaimTransitions, RunTransitions
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.decision import Decision, RunOutcome
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.lifecycle import claim_events, run_events
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.run import begun
from slotwise.schedd.lifecycle.run_states import AtStarter

from tests.support.command import Result

#: Of a pool with three slots: jobs that succeed, are delayed, held, removed and vacated, and a restart of the schedd.
OF_A_POOL = Path(__file__).parent / "recorded-steps.jsonl"


def slotwise(*words: str) -> Result:
    """Run a command."""
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(list(words), Invocation(Path("/"), {}, io.StringIO(), out, err))
    return Result(status, out.getvalue(), err.getvalue())


class _Ignored:
    """Carries nothing out: the steps alone are of interest."""

    def carry_out(self, claim: Claim, instruction: ClaimInstruction, turn: Turn) -> None:
        """Do nothing."""

    def return_jobs(self, pending: object) -> None:
        """Do nothing."""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A claim that gets a job, whose run ends while its starter is away; and an event that cannot happen."""
    path = tmp_path / "schedd-stimuli.jsonl"
    recorder = Recorder(SystemClock(), StepFile(path, 10**6).append)
    claims, runs = ClaimTransitions(ClaimTable(), _Ignored), RunTransitions(lambda run, instruction: None)
    claims.step, runs.step = recorder.claim_step, recorder.run_step
    job = Job(Cluster(12, "ann", "ann@here", "ann@here", 0, {}), 0, 1)
    claim = Claim("<10.0.0.7:9618>#1#1#verysecret", "10.0.0.7:9618", "slot1_1@host", "ann@here", 2400, b"")
    run = Run("12.0#1", job, "token", claim, 0.0, 2400, begun(0.0, 2400))
    turn = Turn(Decision(0.0))
    for claim_event in (claim_events.Granted(job), claim_events.JobReserved(job, 3.0), claim_events.StartDue()):
        claims.apply(claim, claim_event, turn)
    claims.apply(claim, claim_events.RunBegun(run.id), turn)
    ended = run_events.EndReport(RunOutcome.EXITED, 1, ad=b"\x00\xff")
    for event in (
        run_events.Hello(resume=False),
        run_events.JobSent(),
        run_events.Started(1e9, {"CondorScratchDir": '"/x"'}),
        run_events.StreamLost(10.0, 2400, claim_gone=False, goes_on=True, reason="closed"),
        run_events.Hello(resume=True),
        run_events.EndReported(ended),
        run_events.EndRecorded(),
    ):
        runs.apply(run, event)
    with pytest.raises(InvariantError):
        runs.apply(run, run_events.SlotIdle(11.0, AtStarter.MISSING, run.end_of_claim))
    claims.release(claim, turn, "never recorded: the claim is not in the table")
    claims.apply(claim, claim_events.Released("no job is left"), turn)
    return path


def test_every_step_with_its_numbered_transition(recorded: Path) -> None:
    done = slotwise("schedd", "replay", str(recorded))
    assert (done.status, done.err) == (0, "")
    rows = [line.split()[2:7] for line in done.out.splitlines()[1:-1]]
    assert rows[:5] == [
        ["slot1_1", "Granted", "Requested", "1", "Idle"],
        ["slot1_1", "JobReserved", "Idle", "3", "Reserved"],
        ["slot1_1", "StartDue", "Reserved", "8", "Idle"],
        ["slot1_1", "RunBegun", "Idle", "4", "Running"],
        ["12.0#1", "Hello", "Starting", "-", "Starting"],
    ]
    assert [row[1] for row in rows[-3:]] == ["EndRecorded", "SlotIdle", "Released"]
    assert rows[-2] == ["12.0#1", "SlotIdle", "Over", "illegal"]
    assert done.out.splitlines()[-1] == "13 steps of 1 claims and 1 runs: all end as recorded"


def test_claims_of_a_slot_and_runs_of_a_job_can_be_chosen(recorded: Path) -> None:
    def count(*options: str) -> int:
        return len(json.loads(slotwise("schedd", "replay", "-json", *options, str(recorded)).out))

    assert count("-slot", "slot1_1") == count("-slot", "slot1_1@host") == 5
    assert count("-job", "12.0") == count("-job", "12.0#1") == 8
    assert count("-job", "12.0", "-slot", "slot1_1") == 13 and count("-slot", "slot2") == 0


def test_the_record_has_no_secrets_and_belongs_to_its_owner_alone(recorded: Path) -> None:
    text = recorded.read_text()
    assert "verysecret" not in text and "token" not in text and "<10.0.0.7:9618>#1#1#sha256:" in text
    assert recorded.stat().st_mode & 0o777 == 0o600


def test_what_a_pool_recorded_ends_in_the_same_states() -> None:
    done = slotwise("schedd", "replay", str(OF_A_POOL))
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "115 steps of 3 claims and 9 runs: all end as recorded"
    steps = json.loads(slotwise("schedd", "replay", "-json", str(OF_A_POOL)).out)
    place: dict[str, str] = {}
    for step in steps:
        if step["Kind"] == "run":
            # Each step begins where the one before has ended: nothing that changes a run goes unrecorded.
            assert place.get(step["Name"], "Starting") == step["Before"]
            place[step["Name"]] = step["After"]
    assert set(place.values()) == {"Over"}
    assert {"KillRequested", "StreamLost", "ClaimListed", "SlotRetires", "KeepCheck", "StartDue"} <= {
        step["Stimulus"] for step in steps
    }


def changed(line: str, **parts: Json) -> str:
    """A recorded step with some parts changed."""
    return json.dumps({**json.loads(line), **parts})


def test_a_step_that_ends_otherwise_is_shown(recorded: Path) -> None:
    lines = recorded.read_text().splitlines()
    gone: Mapping[str, Json] = {"": "Gone", "run": "", "ended": None}
    recorded.write_text("\n".join([changed(lines[0], after=dict(gone)), changed(lines[1], instructions=[])]) + "\n")
    done = slotwise("schedd", "replay", "-different", "-json", str(recorded))
    assert done.status == 1
    first, second = json.loads(done.out)
    assert (first["Kind"], first["Name"]) == ("claim", "slot1_1@host")
    assert (first["After"], first["Recorded"], first["Actions"]) == ("Idle", "Gone", ["StartNext"])
    assert (second["After"], second["Recorded"], second["Same"]) == ("Reserved", "Reserved", False)


def test_what_is_no_recording_is_refused_with_its_place(tmp_path: Path, recorded: Path) -> None:
    good = recorded.read_text()
    for line in ("[]", '{"at": 3}', '{"run": {}, "at": 1, "before": 1, "stimulus": 1, "after": 1}', "nothing"):
        recorded.write_text(good + line + "\n")
        refused = slotwise("schedd", "replay", str(recorded))
        assert refused.status != 0 and "jsonl:14: not a step" in refused.err
    assert "cannot be read" in slotwise("schedd", "replay", str(tmp_path / "none")).err
    for words in ([], ["replay"], ["dance"]):
        assert slotwise("schedd", *words).status != 0
    assert slotwise("schedd", "-help").status == 0

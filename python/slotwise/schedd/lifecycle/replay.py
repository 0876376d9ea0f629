"""Steps of the life cycles of claims and runs as they are recorded, and taken again.

A schedd with SLOTWISE_SCHEDD_STIMULI_MAX_KIB above 0 writes the steps that changed something to
``schedd-stimuli.jsonl`` in LOG, one per line; :func:`retold` takes such a step again (``slotwise schedd replay``). The
file has no secrets: claim ids stand in it as their public part and a digest, and jobs as their ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec import Struct

from slotwise.errors import InvariantError
from slotwise.ids import masked_claim_id
from slotwise.model.job_id import JobId
from slotwise.model.replayed_step import ReplayedStep, Transition
from slotwise.model.stored_form import Json, Reference, StoredForm, structs_of
from slotwise.model.transition_table import TransitionTable, name
from slotwise.schedd.jobs import decision
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.lifecycle import (
    claim,
    claim_events,
    claim_instructions,
    claim_states,
    run,
    run_events,
    run_instructions,
    run_states,
)
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.claim_states import ClaimState
from slotwise.schedd.lifecycle.run_events import RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction
from slotwise.schedd.lifecycle.run_states import RunState

_State = TypeVar("_State")
_Event = TypeVar("_Event")
_Instruction = TypeVar("_Instruction")
#: What stands for a state that an event cannot lead to.
_ILLEGAL = "illegal"


class Machine(Struct, Generic[_State, _Event, _Instruction], frozen=True):
    """A life cycle whose steps are recorded. ``kind``: what lives, ``claim`` or ``run``."""

    kind: str
    table: TransitionTable[_State, _Event, _Instruction]
    form: StoredForm

    def record(
        self,
        at: float,
        names: Mapping[str, str],
        before: _State,
        event: _Event,
        outcome: tuple[_State, Sequence[_Instruction]] | None,
    ) -> dict[str, Json]:
        """A step as it is written down.

        :param at: when, seconds since the epoch.
        :param names: what it happened to; the first of them is shown.
        :param outcome: the state that follows and what is to be done; None: the event could not happen.
        """
        return {
            "at": at,
            self.kind: dict(names),
            "before": self.form.encode(before),
            "stimulus": self.form.encode(event),
            "after": None if outcome is None else self.form.encode(outcome[0]),
            "instructions": [] if outcome is None else [self.form.encode(one) for one in outcome[1]],
        }

    def replay(self, record: Mapping[str, Json]) -> ReplayedStep:
        """A recorded step taken again.

        :raises KeyError, TypeError, AttributeError, ValueError: when it is not one of this life cycle.
        """
        names, at = record[self.kind], record["at"]
        if not isinstance(names, dict) or not isinstance(at, int | float):
            raise TypeError("no name, or no time")
        before, event, then = (self.form.decode(record[part]) for part in ("before", "stimulus", "after"))
        if not isinstance(before, self.table.states):
            raise TypeError(f"no state of {self.table.what} before")
        then_asked = self.form.decode(record["instructions"])
        try:
            after, asked = self.table.step(before, event)
            row = self.table.row(type(before), type(event))
        except InvariantError:
            after, asked, row = None, (), None
        return ReplayedStep(
            at=at,
            kind=self.kind,
            name=str(next(iter(names.values()))),
            stimulus=name(event),
            before=name(before),
            transitions=() if row is None else (Transition(row.number, row.when, (name(after),)),),
            after=_ILLEGAL if after is None else name(after),
            recorded=_ILLEGAL if then is None else name(then),
            actions=tuple(name(one) for one in asked),
            same=after == then and tuple(asked) == then_asked,
        )


def retold(line: str) -> ReplayedStep:
    """A line of the file taken again, in words.

    :raises ValueError: when the line is not one of the file.
    """
    try:
        record = json.loads(line)
        return CLAIMS.replay(record) if CLAIMS.kind in record else RUNS.replay(record)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not a step of a claim or a run: {error!r}") from None


def claim_names(slot_name: str, claim_id: str) -> dict[str, str]:
    """The names of a claim in the record."""
    return {"slot": slot_name, "id": masked_claim_id(claim_id)}


def run_names(run_id: str) -> dict[str, str]:
    """The names of a run in the record."""
    return {"id": run_id}


def _key_of(job: object) -> str:
    assert isinstance(job, Job)
    return job.key


@lru_cache(maxsize=4096)  # one job is the same one in all parts of a step
def _stand_in(key: str) -> Job:
    """A job that stands for the one with this id; the life cycles hand jobs on and do not look into them."""
    cluster, proc = JobId.parse(key).first
    return Job(Cluster(cluster, "", "", "", 0, {}), proc or 0, Status.IDLE)


_JOBS = Reference(Job, _key_of, _stand_in)
_ENUMERATIONS = (decision.RunOutcome, run_states.AtStarter)
CLAIMS: Machine[ClaimState, ClaimEvent, ClaimInstruction] = Machine(
    "claim",
    claim.TRANSITIONS,
    StoredForm(structs_of(claim_states, claim_events, claim_instructions), references=[_JOBS]),
)
RUNS: Machine[RunState, RunEvent, RunInstruction] = Machine(
    "run",
    run.TRANSITIONS,
    StoredForm([*structs_of(claim_states, run_states, run_events, run_instructions), *_ENUMERATIONS]),
)

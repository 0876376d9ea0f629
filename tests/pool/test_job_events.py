"""The event logs of a fixed list of jobs, event by event as HTCondor writes them (25.14.1).

``tests/conformance/job-events.json`` holds what `tests.support.job_events` printed in an HTCondor pool. What differs on
purpose is in :data:`DIFFERENT`, each with its reason.
"""

from __future__ import annotations

import getpass
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

from tests.support import job_events
from tests.support.pool import Pool

RECORDED = json.loads((Path(__file__).parents[1] / "conformance" / "job-events.json").read_text())
CONFIG = "\n".join(f"{name} = {value}" for name, value in job_events.KNOBS.items()) + "\n"


@dataclass(frozen=True)
class Difference:
    """What is not as recorded: events (by number) that are missing or added, and texts that are others."""

    reason: str
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


NEVER_RAN = Difference("a job whose program cannot be started is not called executing", missing=("001",))
FAILED_HERE = "the starter is not blamed for a file that the access point cannot read or write"
SENT = "Transfer output files failure at execution point SLOT while sending files to access point AP. Details: "
MUCH = "The job's output files are 2.0 MB together, more than the 1 MB allowed"
#: Before a file's error in the words of HTCondor's transfers, which go on with other files and count; ours stop.
COUNTED = "1 total failures: first failure: "
DIFFERENT: dict[str, list[Difference]] = {
    "many": [
        Difference("a plain `queue` counts as one item", texts={"from 0 items": "from 1 items"}),
    ],
    "policy_remove": [
        Difference("also a removal by policy leaves the usage of the run in the log", added=("004",)),
    ],
    "no_program": [NEVER_RAN],
    "no_program_arguments": [
        NEVER_RAN,
        Difference("arguments are quoted as a shell reads them", texts={"two' 'three": "'two three'"}),
    ],
    "directory_program": [NEVER_RAN],
    "no_input": [
        Difference(FAILED_HERE, missing=("021",)),
        Difference("a job that did not run has no results", missing=("040 Started transferring output",)),
        Difference("(the same)", missing=("040 Finished transferring output",)),
    ],
    "no_output": [
        Difference(
            "one text, in terms of files, instead of that of HTCondor's transfer protocol",
            texts={
                "STARTER at AP failed to send file(s) to <HOST>: |Error: ": SENT,
                "; SHADOW failed to receive file(s) from <HOST>\n\tCode 13": "\n\tCode 12",
            },
        )
    ],
    "output_nowhere": [Difference(FAILED_HERE, missing=("021",))],
    "much_output": [
        Difference(
            "the text speaks of the files, not of the transfer protocol",
            texts={
                "STARTER at AP failed to send file(s) to <HOST>: |Error: sending file SCRATCH/much.out: max total "
                "download bytes exceeded (max=1 MB, this file=2 MB); SHADOW failed to receive file(s) from <HOST>": MUCH
            },
        )
    ],
    "much_input": [
        Difference(
            "sizes of inputs are judged when they are sent, not by what they were when the job was submitted",
            added=("040", "004"),
            texts={
                "TransferInputSizeMB (3) is greater than MAX_TRANSFER_INPUT_MB (1) at submit time": "Max total input "
                "file size exceeded: limit 1 MB"
            },
        )
    ],
}


def expected(name: str) -> list[str]:
    """The recorded log as ours is to be."""
    events = [event.replace(COUNTED, "") for event in job_events.without_sizes(RECORDED[name])]
    for difference in DIFFERENT.get(name, ()):
        former = events
        events = [event for event in events if not event.startswith(difference.missing or "none")]
        for text, ours in difference.texts.items():
            events = [event.replace(text, ours) for event in events]
        assert difference.added or events != former, f"{name}: {difference.reason}: no such difference"
    return events


def kept(name: str, events: Sequence[str]) -> list[str]:
    """Our log without what we add on purpose."""
    added = tuple(number for difference in DIFFERENT.get(name, ()) for number in difference.added)
    return [event for event in job_events.without_sizes(events) if not event.startswith(added or "none")]


def test_event_logs_are_those_of_htcondor(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    pool.up()
    work = pool.root / "work"
    work.mkdir()

    def command(words: Sequence[str]) -> str:
        out, err = io.StringIO(), io.StringIO()
        inv = Invocation(work, pool.env, io.StringIO(), out, err)
        assert dispatch(list(words), inv) == 0, (words, out.getvalue(), err.getvalue())
        return out.getvalue()

    logs = job_events.drive(job_events.JOBS, command, work)
    user = getpass.getuser()
    for name, events in logs.items():
        found = [job_events.normalised(event, work, user) for event in events]
        assert kept(name, found) == expected(name), name


def test_every_job_was_recorded() -> None:
    assert list(RECORDED) == [job.name for job in job_events.JOBS]
    assert set(DIFFERENT) <= set(RECORDED)

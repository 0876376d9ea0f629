"""What ``htcondor`` prints, beside what HTCondor's own prints (verb-noun.jsonl, :mod:`tests.support.verb_noun_cases`).

Besides what differs between pools, the texts of usage are masked, and sizes and times. What may differ is in
verb-noun-accepted.tsv with the reason. Summaries of event logs are the same to the letter (userlogs/verb-noun.jsonl);
some logs end HTCondor's command with an exception.
"""

from __future__ import annotations

import io
import json
import os
import pwd
import re
import shlex
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

from tests.support import command_cases, verb_noun_cases
from tests.support.command_cases import Answer, Step
from tests.support.pool import Pool

HERE = Path(__file__).parent
RECORDED = [json.loads(line) for line in (HERE / "verb-noun.jsonl").read_text().splitlines()]
ACCEPTED = [line.split("\t") for line in (HERE / "verb-noun-accepted.tsv").read_text().splitlines()]
LOGS = HERE / "userlogs"
OF_LOGS = [json.loads(line) for line in (LOGS / "verb-noun.jsonl").read_text().splitlines()]
#: Besides those of :mod:`command_cases`.
_MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"(?m)^([A-Z]+) +\d+ +(?=Alive)", r"\1 PID "),
        (r"\d[\d.]* (?:second|minute|hour)s?", "SPAN"),
        (r"\d[\d.]*%", "SHARE"),
        (r"(?m)^(Its|It's) (current|last) (memory|disk) usage .*\n", ""),  # as far as it was measured by then
        (r"(?m)^Input file transfer .*\n", ""),
        (r"(?s)^usage:.*", "USAGE"),
        (r"(?s)options \{.*?\}", "OPTIONS"),
        (r"\b(?:Good|Decent|Poor|Bad)\b", "HEALTH"),  # young daemons of a loaded host are busy
    )
]


def _masked(text: str, names: dict[str, str]) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return command_cases.normalised(text, names)


def _reason(words: list[str]) -> str:
    return next((why for pattern, why in ACCEPTED if re.fullmatch(pattern, shlex.join(words))), "")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer]]:
    """What the script prints on a pool of ours. Commands run in this process: there are many."""
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory) / "p", command_cases.CONFIG)

        def run(step: Step) -> Answer:
            out, err = io.StringIO(), io.StringIO()
            status = dispatch(step.words, Invocation(tmp_path, pool.env, io.StringIO(), out, err, uid=os.getuid()))
            return Answer(step.words, out.getvalue(), err.getvalue(), status)

        try:
            pool.up()
            script, files = verb_noun_cases.SCRIPT, verb_noun_cases.FILES
            yield list(command_cases.play(tmp_path, {}, script=script, files=files, run_it=run))
            pool.down()
        finally:
            pool.destroy()


@pytest.mark.slow
def test_what_is_printed_is_what_htcondor_prints(answers: list[Answer]) -> None:
    assert [answer.words for answer in answers] == [row["words"] for row in RECORDED]
    account, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
    theirs = {"127-0-0-1.peer.local": "HOST", "user peer": "user USER"}
    ours = {host: "HOST", f"user {account}": "user USER"}
    different = []
    for row, answer in zip(RECORDED, answers, strict=True):
        expected = (_masked(row["out"], theirs), _masked(row["err"], theirs), row["status"])
        found = (_masked(answer.out, ours), _masked(answer.err, ours), answer.status)
        if expected != found and not _reason(row["words"]):
            different.append(f"== {shlex.join(row['words'])}\n-- HTCondor: {expected}\n-- ours:     {found}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("row", OF_LOGS, ids=lambda row: shlex.join(row["words"][3:]))
def test_event_logs_are_summarized_as_htcondor_does(row: dict[str, Any]) -> None:
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(row["words"], Invocation(LOGS, {}, io.StringIO(), out, err))
    assert (status, out.getvalue(), err.getvalue()) == (0, row["out"], "")


@pytest.mark.parametrize("name", ["orders.log", "states.log", "torn.log"])
def test_logs_whose_events_lack_a_start_are_summarized(name: str) -> None:
    out = io.StringIO()
    assert dispatch(["htcondor", "eventlog", "read", name], Invocation(LOGS, {}, io.StringIO(), out, out)) == 0
    assert len(out.getvalue().splitlines()) > 1


def test_each_accepted_difference_has_a_reason_and_an_invocation() -> None:
    calls = [shlex.join(row["words"]) for row in RECORDED]
    for pattern, why in ACCEPTED:
        assert len(why) > 10, pattern
        assert any(re.fullmatch(pattern, call) for call in calls), f"{pattern} is of no invocation"

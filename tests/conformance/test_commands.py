"""What commands print under HTCondor's names, beside what HTCondor's own print (commands.jsonl).

Two scripts of some hundred invocations each, recorded on a pool of HTCondor 25.14.1 by ``tests.support.command_cases``
and ``tests.support.command_variants``, run on personal pools of ours.
Times, addresses, names of hosts and widths of columns are masked. What may differ is in commands-accepted.tsv and its
like, with the reason: a regular expression of invocations, a tab, why.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_cases, command_variants, nursery
from tests.support.host import launcher, need
from tests.support.pool import Pool, wants_an_interpreter
from tests.support.waiting import LIMIT_S

HERE = Path(__file__).parent
#: The least share of invocations of each script that are the same; some depend on when ads arrive.
AIMS = {"commands": 0.9, "command-variants": 0.9}
SCRIPTS = {"commands": ("", command_cases.FILES), "command-variants": (command_variants.SCRIPT, command_variants.FILES)}


@cache
def recorded(script: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / f"{script}.jsonl").read_text().splitlines()]


@cache
def accepted(script: str = "commands") -> list[tuple[re.Pattern[str], str]]:
    rows = [line.split("\t") for line in (HERE / f"{script}-accepted.tsv").read_text().splitlines()]
    return [(re.compile(pattern), why) for pattern, why in rows]


def _masked(text: str, names: dict[str, str], account: str, host: str) -> str:
    text = command_cases.normalised(text, names)
    text = re.sub(rf"\b{re.escape(account)}\b(?!\.local)", "USER", text)
    return re.sub(rf"\b{re.escape(host)}\b", "HOST", text)


def _theirs(row: dict[str, Any]) -> tuple[str, str, int]:
    names = {"peer@127-0-0-1.peer.local": "HOST", "127-0-0-1.peer.local": "HOST", "peer1": "USER1"}
    out, err = (_masked(row[name], names, "peer", "127-0-0-1") for name in ("out", "err"))
    return out, err, row["status"]


Ours = tuple[str, list[tuple[str, str, int]]]


@pytest.fixture(scope="module", params=SCRIPTS)
def ours(request: pytest.FixtureRequest) -> Iterator[Ours]:
    """A script, and what it prints on a pool of ours, masked."""
    script, files = SCRIPTS[request.param]
    need(launcher)
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory) / "p", command_cases.CONFIG)
        pool.env.pop("_CONDOR_SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES", None)
        try:
            pool.up()
            names = pool.run("condor-names", "--in", str(Path(directory) / "names")).stdout.strip()
            env = pool.env | {"PATH": f"{names}:/usr/bin:/bin"}
            work = Path(directory) / "work"
            work.mkdir()
            account, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
            own = {f"{account}1": "USER1", f"slot1@{host}": "slot1@HOST"}
            yield (
                request.param,
                [
                    (_masked(answer.out, own, account, host), _masked(answer.err, own, account, host), answer.status)
                    for answer in command_cases.play(
                        work, env, at_once=4, script=script, files=files, run_it=partial(_answer, env=env, cwd=work)
                    )
                ],
            )
            pool.down()
        finally:
            pool.destroy()
            shutil.rmtree(directory, ignore_errors=True)


def _answer(step: command_cases.Step, env: dict[str, str], cwd: Path) -> command_cases.Answer:
    """Of the command server, or of a fork, where an interpreter of its own would be started."""
    if step.stdin or not wants_an_interpreter(step.words):
        return command_cases.run(step, env, cwd)
    done = nursery.run(step.words, env, cwd, LIMIT_S)
    return command_cases.Answer(step.words, done.stdout, done.stderr, done.returncode)


def _reason(words: str, script: str = "commands") -> str:
    return next((why for pattern, why in accepted(script) if pattern.fullmatch(words)), "")


def _same(words: str, theirs: tuple[str, str, int], answer: tuple[str, str, int]) -> bool:
    """Users in the order of their priorities, which depend on how long their jobs ran, count in any order."""
    if re.fullmatch(r"condor_userprio\b.* -(priority|usage)\b.*", words):
        theirs, answer = ((*map(_sorted, ours[:2]), ours[2]) for ours in (theirs, answer))  # type: ignore[assignment]
    return theirs == answer


def _sorted(text: str) -> str:
    return "\n".join(sorted(text.splitlines()))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_printed_is_what_htcondor_prints(ours: Ours) -> None:
    script, answers = ours
    rows = recorded(script)
    assert [row["words"] for row in rows] == [
        s.words for s in command_cases.steps(SCRIPTS[script][0]) if s.until is None
    ]
    different = []
    for row, answer in zip(rows, answers, strict=True):
        words = shlex.join(row["words"])
        if not _same(words, _theirs(row), answer) and not _reason(words, script):
            different.append(f"== {words}\n-- HTCondor: {_theirs(row)}\n-- ours:     {answer}")
    assert not different, "\n".join(different)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_most_are_the_same(ours: Ours) -> None:
    script, answers = ours
    rows = recorded(script)
    same = sum(_theirs(row) == answer for row, answer in zip(rows, answers, strict=True))
    assert same >= AIMS[script] * len(rows), f"{same} of {len(rows)}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_accepted_difference_has_a_reason_and_an_invocation(script: str) -> None:
    calls = [shlex.join(row["words"]) for row in recorded(script)]
    for pattern, why in accepted(script):
        assert len(why) > 10, pattern.pattern
        assert any(pattern.fullmatch(call) for call in calls), f"{pattern.pattern} is of no invocation"

"""What commands print under HTCondor's names, beside what HTCondor's own print (commands.jsonl).

A script of some hundred invocations, recorded on a pool of HTCondor 25.14.1 by ``tests.support.command_cases``, runs on
a personal pool of ours. Times, addresses, names of hosts and widths of columns are masked. What may differ is in
commands-accepted.tsv, with the reason: a regular expression of invocations, a tab, why.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_cases
from tests.support.patience import PATIENCE
from tests.support.pool import Pool

HERE = Path(__file__).parent
#: The least share of invocations that are the same, of all; nine of ten are, and some depend on when ads arrive.
AIM = 0.88


@cache
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "commands.jsonl").read_text().splitlines()]


@cache
def accepted() -> list[tuple[re.Pattern[str], str]]:
    rows = [line.split("\t") for line in (HERE / "commands-accepted.tsv").read_text().splitlines()]
    return [(re.compile(pattern), why) for pattern, why in rows]


def _masked(text: str, names: dict[str, str], account: str, host: str) -> str:
    text = command_cases.normalised(text, names)
    text = re.sub(rf"\b{re.escape(account)}\b(?!\.local)", "USER", text)
    return re.sub(rf"\b{re.escape(host)}\b", "HOST", text)


def _theirs(row: dict[str, Any]) -> tuple[str, str, int]:
    names = {"peer@127-0-0-1.peer.local": "HOST", "127-0-0-1.peer.local": "HOST", "peer1": "USER1"}
    out, err = (_masked(row[name], names, "peer", "127-0-0-1") for name in ("out", "err"))
    return out, err, row["status"]


@pytest.fixture(scope="module")
def ours() -> Iterator[list[tuple[str, str, int]]]:
    """What the script prints on a pool of ours, masked."""
    if not Path(sys.executable).with_name("slotwise").exists():
        pytest.skip("needs the launcher beside the interpreter (an installed package)")
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory) / "p", command_cases.CONFIG)
        try:
            pool.up()
            names = pool.run("condor-names", "--in", str(Path(directory) / "names")).stdout.strip()
            env = pool.env | {"PATH": f"{names}:/usr/bin:/bin"}
            work = Path(directory) / "work"
            work.mkdir()
            account, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
            own = {f"{account}1": "USER1", f"slot1@{host}": "slot1@HOST"}
            yield [
                (_masked(answer.out, own, account, host), _masked(answer.err, own, account, host), answer.status)
                for answer in command_cases.play(work, env, PATIENCE, at_once=4)
            ]
            pool.down()
        finally:
            pool.destroy()
            shutil.rmtree(directory, ignore_errors=True)


def _reason(words: str) -> str:
    return next((why for pattern, why in accepted() if pattern.fullmatch(words)), "")


@pytest.mark.slow
def test_what_is_printed_is_what_htcondor_prints(ours: list[tuple[str, str, int]]) -> None:
    rows = recorded()
    assert [row["words"] for row in rows] == [s.words for s in command_cases.steps() if s.until is None]
    different = []
    for row, answer in zip(rows, ours, strict=True):
        words = shlex.join(row["words"])
        if _theirs(row) != answer and not _reason(words):
            different.append(f"== {words}\n-- HTCondor: {_theirs(row)}\n-- ours:     {answer}")
    assert not different, "\n".join(different)


@pytest.mark.slow
def test_nine_of_ten_are_the_same(ours: list[tuple[str, str, int]]) -> None:
    rows = recorded()
    same = sum(_theirs(row) == answer for row, answer in zip(rows, ours, strict=True))
    assert same >= AIM * len(rows), f"{same} of {len(rows)}"


def test_each_accepted_difference_has_a_reason_and_an_invocation() -> None:
    calls = [shlex.join(row["words"]) for row in recorded()]
    for pattern, why in accepted():
        assert len(why) > 10, pattern.pattern
        assert any(pattern.fullmatch(call) for call in calls), f"{pattern.pattern} is of no invocation"

"""In which syntax of ClassAds texts are read, place by place: HTCondor 25.14.1's answers (dialects.jsonl), recorded by
``tests.support.dialect_cases``, beside ours and the table of the documentation."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.classad.places import PLACES

from tests.support import dialect_cases
from tests.support.host import launcher, need
from tests.support.pool import Pool

_COMPAT = Path(__file__).resolve().parents[2] / "compat" / "src"
_RECORD = Path(__file__).with_name("dialects.jsonl")
#: What HTCondor does with a word behind an expression, where ours does something else on purpose, and why.
_ACCEPTED = {
    "condor_q -jobads -constraint": "HTCondor shows all jobs of the file; it is refused here",
}


def recorded() -> dict[str, dict[str, str | None]]:
    return {row["place"]: row for row in map(json.loads, _RECORD.read_text().splitlines())}


def test_every_place_is_in_the_table_with_htcondors_answer() -> None:
    theirs = {place: row["told"] for place, row in recorded().items()}
    assert list(theirs) == list(dialect_cases.PROBES)
    assert {place.name: place.syntax for place in PLACES} == theirs


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, tuple[str, str | None]]]:
    need(launcher)
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory) / "p", dialect_cases.CONFIG)
        try:
            pool.up()
            names = pool.run("condor-names", "--in", str(Path(directory) / "names")).stdout.strip()
            python = os.pathsep.join([str(_COMPAT), pool.env["PYTHONPATH"]])
            env = pool.env | {"PATH": f"{names}:/usr/bin:/bin", "PYTHONPATH": python}
            work = Path(directory) / "work"
            work.mkdir()
            yield {place: (told, rest) for place, told, rest in dialect_cases.answers(work, env)}
        finally:
            pool.destroy()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_texts_are_read_as_by_htcondor(ours: dict[str, tuple[str, str | None]]) -> None:
    theirs = {place: row["told"] for place, row in recorded().items()}
    assert {place: told for place, (told, _) in ours.items()} == theirs


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_no_expression_as_a_whole_is_refused_where_htcondor_refuses_it(
    ours: dict[str, tuple[str, str | None]],
) -> None:
    def taken(told: str | None, rest: str | None) -> bool:
        return rest is not None and rest == told

    differ = {
        place: (row["rest"], ours[place][1])
        for place, row in recorded().items()
        if taken(row["told"], row["rest"]) != taken(*ours[place]) and place not in _ACCEPTED
    }
    assert not differ

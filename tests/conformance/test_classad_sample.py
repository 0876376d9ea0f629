"""Every case of the ClassAd sample, and those that searches found later, answered as HTCondor answered them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.classad.conformance import ads_case, eval_case, fmt_case

HERE = Path(__file__).parent
SAMPLE, FOUND = (
    [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]
    for name in ("classad-sample.jsonl", "classad-found.jsonl")
)
CASES = SAMPLE + FOUND


def _close(a: str, b: str) -> bool:
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= 1e-12 * max(abs(x), abs(y))


def _evaluated(case: dict[str, Any]) -> str | None:
    wanted, got = case["expect"], eval_case(case, case.get("mode") == "strict")
    if "parse_error" in wanted or "parse_error" in got:
        return None if wanted.get("parse_error") == got.get("parse_error") else str(got)
    if got["type"] != wanted["type"]:
        return str(got)
    if "value" not in wanted:
        return None
    if wanted.get("raised") != got.get("raised"):
        return str(got)
    if got["value"] in (wanted["value"], wanted.get("deep")):
        return None
    number = wanted["type"] in ("real", "reltime") and _close(wanted["value"], got["value"])
    return None if number else str(got)


def _read(case: dict[str, Any]) -> str | None:
    wanted, got = case["expect"], ads_case(case)
    if "parse_error" in wanted or "parse_error" in got:
        return None if wanted.get("parse_error") == got.get("parse_error") else str(got)
    if len(wanted["ads"]) != len(got["ads"]):
        return str(got)
    pairs = zip(wanted["ads"], got["ads"], strict=True)
    return None if all(b[key] == a[key] for a, b in pairs for key in a) else str(got)


def _matched(case: dict[str, Any]) -> str | None:
    my, target = ClassAd(case["my"]), ClassAd(case["target"])
    got = {
        "my_matches_target": my.matches(target),
        "target_matches_my": target.matches(my),
        "symmetric": my.symmetric_match(target),
    }
    return None if got == case["expect"] else str(got)


def _difference(case: dict[str, Any]) -> str | None:
    group = case["group"]
    if group.startswith("ads-"):
        return _read(case)
    if group == "match-api":
        return _matched(case)
    if group == "roundtrip":
        text = fmt_case(case).get("value")
        return None if text == case["expect"]["unparse"] else str(text)
    return _evaluated(case)


@pytest.mark.parametrize("group", sorted({case["group"].split(".")[0] for case in CASES}))
def test_group_agrees_with_the_reference(group: str) -> None:
    cases = [case for case in CASES if case["group"].split(".")[0] == group]
    wrong = [(case["id"], case["expect"], found) for case in cases if (found := _difference(case)) is not None]
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:3]}"


def test_the_sample_is_whole() -> None:
    assert len(SAMPLE) == 3000

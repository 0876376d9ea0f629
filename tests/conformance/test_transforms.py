"""Transforms of ads that HTCondor 25.14's condor_transform_ads made (transforms.jsonl).

Made by tests/support/transform_cases.py. Ours differs on purpose in one thing: HTCondor breaks a transform off at an
`if` whose expression is false; here the `else` is taken.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.errors import ConfigError
from slotwise.transform import Transforms, read_rules, rows

CASES = [json.loads(line) for line in Path(__file__).with_name("transforms.jsonl").read_text().splitlines()]


def transformed(case: dict[str, str]) -> Iterator[tuple[ClassAd, list[str]]]:
    rules = read_rules("rules", case["rules"])
    variables: list[tuple[str, str]] = []
    for row in rows(rules, None, cwd="/", environment={}, seed=1):
        variables = variables if row.step else []
        for ad in parse_ads(case["ad"]):
            done = Transforms([rules]).apply(ad, now=1, seed=1, row=row, variables=variables)
            variables = done.variables
            yield done.ad, done.problems


def plain(ads: list[ClassAd]) -> list[dict[str, str]]:
    return [{name.lower(): str(ad.lookup(name)) for name in ad} for ad in ads if len(ad)]


@pytest.mark.parametrize("first", range(0, len(CASES), 30))
def test_ads_are_changed_as_by_htcondor(first: int) -> None:
    for number, case in enumerate(CASES[first : first + 30], start=first):
        theirs = plain(list(parse_ads(case["out"], format="old", lenient=True)))
        try:
            made = list(transformed(case))
        except ConfigError:
            assert not theirs, (number, case["rules"])
            continue
        if "Transform of ad  failed!" in case["errors"] and not theirs:
            continue  # a false condition
        ours = plain([ad for ad, _ in made])
        unevaluated = [text for _, problems in made for text in problems if "could not evaluate" in text]
        assert ours == theirs or unevaluated, (number, case["rules"], ours, theirs)


def test_most_cases_have_an_effect() -> None:
    before = [plain(list(parse_ads(case["ad"]))) for case in CASES]
    after = [plain(list(parse_ads(case["out"], format="old", lenient=True))) for case in CASES]
    assert sum(a != b for a, b in zip(before, after, strict=True)) > 200
    assert sum(bool(ads) for ads in after) > 300

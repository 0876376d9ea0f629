"""IS_OWNER must have a value."""

from __future__ import annotations

import pytest
from slotwise.errors import ConfigError
from slotwise.startd.host import is_owner_check

from tests.support.startd_point import point


@pytest.mark.parametrize(
    "text", ["undefined", "NoSuchAttribute > 5", '"yes"', "1 / 0 == 1", 'TARGET.Owner == "ann"', "{ true }"]
)
def test_an_owner_expression_without_a_truth_value_is_refused_with_slot_and_text(text: str) -> None:
    p = point(IS_OWNER=text)
    with pytest.raises(ConfigError) as refused:
        is_owner_check.require(p.it.host, p.it.ads, p.now)
    assert "for slot1@host" in refused.value.message and f"IS_OWNER = {text}" in refused.value.message
    assert refused.value.key == "IS_OWNER"


@pytest.mark.parametrize("text", ["false", "START =?= False", "KeyboardIdle < 60", "0", 'TARGET.Owner =?= "ann"'])
def test_truth_values_and_numbers_are_accepted(text: str) -> None:
    p = point(IS_OWNER=text)
    is_owner_check.require(p.it.host, p.it.ads, p.now)


def test_the_slot_that_cannot_tell_is_named() -> None:
    p = point(NUM_SLOTS="2", SLOT2_IS_OWNER="Nobody")
    with pytest.raises(ConfigError, match=r"IS_OWNER = Nobody .* slot2@host"):
        is_owner_check.require(p.it.host, p.it.ads, p.now)

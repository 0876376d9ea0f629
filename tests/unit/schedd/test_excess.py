"""Claims that are given back between jobs because others wait for their slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotwise.schedd.claims.ends.excess import Excess, ExcessBook

SLOTS = [f"slot1_{number}@h" for number in range(1, 9)]


def book(keep: float, weights: dict[str, float] | None = None, held: list[str] | None = None) -> ExcessBook:
    made = ExcessBook()
    excess = Excess("ann@d", weights or dict.fromkeys(SLOTS, 1.0), keep)
    made.replace([excess], [(slot, "ann@d") for slot in held or SLOTS], until=100.0)
    return made


def ends(of: ExcessBook, slot: str, now: float = 0.0) -> bool:
    """A job ends; whether its claim went."""
    if of.why(slot, "ann@d", now) is None:
        return False
    of.gone(slot, "ann@d")
    return True


def test_the_first_whose_jobs_end_go_until_what_may_be_kept_is_left() -> None:
    told = book(keep=6)
    assert [ends(told, slot) for slot in SLOTS] == [True, True, *[False] * 6]


def test_a_claim_that_is_gone_for_another_reason_counts_as_given_back() -> None:
    told = book(keep=6)
    told.gone(SLOTS[7], "ann@d")
    assert [ends(told, slot) for slot in SLOTS[:3]] == [True, False, False]


def test_a_word_from_before_a_claim_was_given_back_asks_for_no_more() -> None:
    told = book(keep=4)
    assert [ends(told, slot) for slot in SLOTS[:2]] == [True, True]
    # The negotiator still sees all eight slots claimed.
    told.replace([Excess("ann@d", dict.fromkeys(SLOTS, 1.0), 4)], [(slot, "ann@d") for slot in SLOTS[2:]], until=100.0)
    assert [ends(told, slot) for slot in SLOTS[2:]] == [True, True, False, False, False, False]


def test_a_heavy_claim_goes_only_when_what_is_left_is_enough() -> None:
    told = book(keep=5, weights={"a": 4.0, "b": 2.0, "c": 2.0}, held=["a", "b", "c"])
    assert [ends(told, slot) for slot in "abc"] == [False, True, False]


def test_claims_of_others_and_unnamed_ones_stay() -> None:
    told = book(keep=0)
    assert told.why(SLOTS[0], "ben@d", 0.0) is None
    assert told.why("slot2@h", "ann@d", 0.0) is None


def test_a_word_holds_until_the_next_or_until_it_is_out_of_date() -> None:
    told = book(keep=0)
    assert told.why(SLOTS[0], "ann@d", 100.0) is None
    assert told.why(SLOTS[0], "ann@d", 99.0) is not None
    told.replace([], [], until=100.0)
    assert told.why(SLOTS[0], "ann@d", 99.0) is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(["end", "gone", "told"]), st.integers(0, 7)), max_size=40),
    st.floats(0, 20),
)
def test_nobody_is_left_with_less_than_it_may_keep_and_none_goes_twice(
    weights: list[int], steps: list[tuple[str, int]], keep: float
) -> None:
    of = {f"s{number}": float(weight) for number, weight in enumerate(weights)}
    held, gone = dict(of), []
    told = ExcessBook()
    told.replace([Excess("ann@d", of, keep)], [(slot, "ann@d") for slot in held], until=1.0)
    for what, number in steps:
        slot = f"s{number}"
        if what == "told":
            # Every word names all slots, as a negotiator does that has not seen any of them go.
            told.replace([Excess("ann@d", of, keep)], [(slot, "ann@d") for slot in held], until=1.0)
        elif what == "end" and slot in held:
            before = sum(held.values())
            if ends(told, slot):
                gone.append(slot)
                del held[slot]
                assert sum(held.values()) >= keep - 1e-6
            else:
                assert before - held[slot] < keep
        elif what == "gone" and slot in held:
            told.gone(slot, "ann@d")
            del held[slot]
        elif what == "end":
            assert not ends(told, slot)
    assert len(gone) == len(set(gone))

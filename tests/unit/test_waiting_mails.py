"""One user's mails keep nobody else's from being sent, and are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotwise.mail.message import Mail
from slotwise.mail.waiting import WaitingMails


def mail(text: str, length: int = 10) -> Mail:
    return Mail(("a@x.org",), text, "." * length)


def taken(waiting: WaitingMails) -> list[str]:
    return [waiting.take().subject for _ in range(len(waiting))]


def test_users_take_turns() -> None:
    waiting = WaitingMails()
    for number in range(1000):
        assert not waiting.put(mail(f"flood {number}"), "mallory@x.org", 2000, 10**9)
    waiting.put(mail("one"), "bob@x.org", 2000, 10**9)
    waiting.put(mail("of the pool"), "", 2000, 10**9)
    assert taken(waiting)[:5] == ["flood 0", "one", "of the pool", "flood 1", "flood 2"]


def test_a_flood_of_many_mails_takes_no_place_from_others() -> None:
    waiting = WaitingMails()
    discarded = sum(waiting.put(mail("flood"), "mallory@x.org", 100, 10**9) for _ in range(1000))
    assert (discarded, len(waiting)) == (900, 100)
    assert waiting.put(mail("one"), "bob@x.org", 100, 10**9) == 1
    assert sorted(set(taken(waiting))) == ["flood", "one"]


def test_a_flood_of_long_mails_takes_no_place_from_others() -> None:
    waiting = WaitingMails()
    for _ in range(50):
        waiting.put(mail("flood", 400_000), "mallory@x.org", 100, 10**6)
    assert len(waiting) == 2
    waiting.put(mail("one", 300_000), "bob@x.org", 100, 10**6)
    assert taken(waiting) == ["flood", "one"]


def test_a_mail_that_is_longer_than_all_may_be_is_sent_alone() -> None:
    waiting = WaitingMails()
    assert waiting.put(mail("long", 100), "bob@x.org", 100, 10) == 0
    assert taken(waiting) == ["long"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=60))
def test_counts_are_those_of_what_waits(steps: list[tuple[str, int, bool]]) -> None:
    waiting, had = WaitingMails(), 0
    for whose, length, takes in steps:
        if takes and len(waiting):
            waiting.take()
            had -= 1
        else:
            had += 1 - waiting.put(mail(whose, length), whose, 5, 20)
        assert len(waiting) == had <= 5
    assert len(taken(waiting)) == had and len(waiting) == 0

"""Which machines the rooster calls, and the packet that wakes one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import ConfigError, UsageError
from slotwise.rooster import decide, rules
from slotwise.rooster.decide import Book, Call
from slotwise.rooster.rules import RoosterRules
from slotwise.wire import wake_on_lan

from tests.support.configured import configured

RULES = RoosterRules(timeout_s=600)


def ad(machine: str, slot: int = 1, **more: Any) -> ClassAd:
    return ClassAd({"Name": f"slot{slot}@{machine}", "Machine": machine, "Offline": True, **more})


def plan(candidates: list[ClassAd], book: Book, now: float, how: RoosterRules = RULES) -> decide.Plan:
    return decide.plan(how, candidates, frozenset(map(decide.machine_of, candidates)), book, now)


def names(found: decide.Plan) -> list[str]:
    return [str(one["Name"]) for one in found.wake]


def test_each_machine_is_called_once_and_the_best_first() -> None:
    slots = [ad("a", Memory=1), ad("a", 2, Memory=9), ad("b", Memory=5), ad("c")]
    assert names(plan(slots, Book(), 0)) == ["slot1@a", "slot1@b", "slot1@c"]
    assert names(plan(slots, Book(), 0, RoosterRules(rank="Memory"))) == ["slot2@a", "slot1@b", "slot1@c"]


def test_a_machine_has_time_to_come_and_is_called_less_and_less_often() -> None:
    book, slots, times = Book(), [ad("a")], []
    failed = 0
    for now in range(0, 86400, 60):
        found = plan(slots, book, now)
        failed += len(found.failed)
        if found.wake:
            decide.called(book, "a", now)
            times.append(now)
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[:5] == [600, 1200, 2400, 4800, 9600] and max(gaps) <= 6 * 3600
    assert failed == len(times) and book.calls["a"].count == len(times)
    assert Book.of(book.record()) == book
    assert decide.plan(RULES, [], frozenset(), book, 90000).back == ("a",) and not book.calls


def test_a_clock_that_was_set_back_does_not_silence_the_rooster() -> None:
    assert decide.due(RULES, Call(at=1000), 10)


def test_whether_it_is_still_wanted_is_asked_again() -> None:
    timed = ad("a", Unhibernate=ExprTree("time() < 100"))
    assert decide.still_wanted(RULES, timed, 99) and not decide.still_wanted(RULES, timed, 101)


def test_a_state_file_that_is_none_is_refused() -> None:
    for record in ({"a": 3}, ["a"], {"a": [1]}):
        with pytest.raises(ValueError):
            Book.of(record)  # type: ignore[arg-type]


def test_knobs() -> None:
    found = rules.read(configured("ROOSTER"))
    assert (found.interval_s, found.unhibernate, found.most, found.timeout_s) == (300, "Offline && Unhibernate", 0, 600)
    assert found.command[0].endswith("/condor_power") and found.command[1:] == ("-d", "-i")
    for knob, text in (("ROOSTER_UNHIBERNATE", "1 +"), ("ROOSTER_UNHIBERNATE_RANK", "("), ("ROOSTER_WAKEUP_CMD", "'a")):
        with pytest.raises(ConfigError, match=knob):
            rules.read(configured("ROOSTER", **{knob: text}))


@pytest.mark.parametrize(
    ("text", "words"),
    [("", ()), ("/bin/wake -i", ("/bin/wake", "-i")), ('"/bin/wake -i"', ("/bin/wake", "-i")),
     ('"/w \'a b\' """"c"', ("/w", "a b", '""c')), ("\"/w 'it''s' ''\"", ("/w", "it's", ""))],
)  # fmt: skip
def test_commands_are_written_as_arguments_of_jobs(text: str, words: tuple[str, ...]) -> None:
    assert rules.words_of(text) == words


def test_the_packet_and_where_it_goes() -> None:
    packet = wake_on_lan.packet("00:1a:2B:3c:4d:5e")
    assert packet.payload == b"\xff" * 6 + bytes.fromhex("001a2b3c4d5e") * 16 and len(packet.payload) == 102
    assert (packet.broadcast, packet.port) == ("255.255.255.255", 9)
    assert wake_on_lan.packet("00:1a:2b:3c:4d:5e", "255.255.240.0", 7, "10.1.37.9").broadcast == "10.1.47.255"
    slot = ad("a", HardwareAddress="00:1a:2b:3c:4d:5e", SubnetMask="255.255.255.0", MyAddress="<10.0.3.4:9618?x=y>")
    assert wake_on_lan.for_ad(slot).broadcast == "10.0.3.255"
    slot["WakePort"] = 4000
    assert wake_on_lan.for_ad(slot).port == 4000
    slot["MyAddress"] = "unix:/run/startd.sock"
    assert wake_on_lan.for_ad(slot).broadcast == "255.255.255.255"
    for bad in (("00:1a", "0.0.0.0", 9), ("00:1a:2b:3c:4d:5e", "255.255", 9), ("00:1a:2b:3c:4d:5e", "0.0.0.0", 70000)):
        with pytest.raises(UsageError):
            wake_on_lan.packet(*bad)
    with pytest.raises(UsageError, match="HardwareAddress"):
        wake_on_lan.for_ad(ad("a"))

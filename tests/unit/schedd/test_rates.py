"""How fast jobs start, and whose files move first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from slotwise.errors import ConfigError
from slotwise.schedd.claims.ends.stop_throttle import StopRate
from slotwise.schedd.claims.starts.start_throttle import StartThrottle
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.transfer.disk_throttle import DiskThrottle, DiskThrottleSettings, parse_limits
from slotwise.schedd.transfer.transfer_queue import TransferQueue

from tests.support.waiting import LIMIT_S


def test_starts_are_spread_over_periods() -> None:
    rate = StartThrottle(count=3, delay_s=10)
    moments = [100 + rate.wait_s(100) for _ in range(7)]
    assert moments == [100, 100, 100, 110, 110, 110, 120]
    assert rate.wait_s(125) == 0.0, "the period of 120 has room"
    assert [200 + rate.wait_s(200) for _ in range(4)] == [200, 200, 200, 210]
    assert [StartThrottle().wait_s(5) for _ in range(50)] == [0.0] * 50


def test_a_job_may_ask_that_the_next_one_waits() -> None:
    rate = StartThrottle()
    moments = [100 + rate.wait_s(100, then_s) for then_s in (0, 5, 0, 0, 30, 0)]
    assert moments == [100, 100, 105, 105, 105, 135]
    assert rate.wait_s(200) == 0.0
    both = StartThrottle(count=2, delay_s=10)
    assert [100 + both.wait_s(100, then_s) for then_s in (0, 25, 0, 0, 0)] == [100, 100, 125, 125, 135]


def _kill(number: int, **more: bool) -> Kill:
    return Kill(f"1.{number}#1", more.get("fast", False), "a reason", 1, forced=more.get("forced", False))


def test_stops_are_spread_over_periods() -> None:
    """JOB_STOP_COUNT after each JOB_STOP_DELAY, in order; HTCondor 25.14 has the first wait as well."""
    rate = StopRate(count=2, delay_s=10)
    for number in range(5):
        rate.add(_kill(number), 100 + number)
    assert rate.due(100, lambda run_id: True) == []
    assert rate.wait_s(103) == 7
    assert [kill.run_id for kill in rate.due(110, lambda run_id: True)] == ["1.0#1", "1.1#1"]
    assert rate.due(119, lambda run_id: True) == []
    assert [kill.run_id for kill in rate.due(120, lambda run_id: True)] == ["1.2#1", "1.3#1"]
    assert [kill.run_id for kill in rate.due(130, lambda run_id: True)] == ["1.4#1"]
    assert rate.wait_s(130) is None
    rate.add(_kill(7), 133)
    assert rate.wait_s(133) == 10


def test_without_a_delay_no_run_waits_to_be_stopped() -> None:
    rate = StopRate(count=1)
    for number in range(50):
        rate.add(_kill(number), 100)
    assert len(rate.due(100, lambda run_id: True)) == 50


def test_a_run_that_ended_meanwhile_takes_no_place_of_others() -> None:
    rate = StopRate(count=1, delay_s=10)
    for number in range(4):
        rate.add(_kill(number), 90)
    assert [kill.run_id for kill in rate.due(100, lambda run_id: run_id not in ("1.0#1", "1.1#1"))] == ["1.2#1"]
    rate.discard("1.3#1")
    assert rate.wait_s(100) is None


def test_a_run_that_waits_keeps_its_place_and_its_haste() -> None:
    rate = StopRate(count=1, delay_s=10)
    for kill in (_kill(0, fast=True), _kill(1), replace(_kill(0), reason="removed later")):
        rate.add(kill, 90)
    (kill,) = rate.due(100, lambda run_id: True)
    assert (kill.run_id, kill.fast, kill.reason) == ("1.0#1", True, "removed later")


async def test_transfers_are_bounded_and_shared_between_users() -> None:
    queue = TransferQueue(most=3, per_user_most=2)
    order: list[str] = []

    async def transfer(user: str) -> None:
        await queue.enter(user)
        order.append(user)

    tasks = [asyncio.create_task(transfer(user)) for user in ("ann", "ann", "ann", "ann", "bob", "bob", "eve")]
    await asyncio.sleep(0)
    assert order == ["ann", "ann", "bob"]
    assert queue.must_wait("ann")
    assert queue.must_wait("eve")
    for leaving, following in (("bob", "eve"), ("eve", "bob"), ("ann", "ann"), ("bob", None), ("ann", "ann")):
        before = len(order)
        queue.leave(leaving)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order[before:] == ([following] if following else []), (leaving, order)
    await asyncio.gather(*tasks)
    for user in ("ann", "ann"):
        queue.leave(user)
    assert not queue.must_wait("ann")


async def test_a_transfer_that_is_given_up_takes_no_turn() -> None:
    queue = TransferQueue(most=1, per_user_most=0)
    await queue.enter("ann")
    waiting = asyncio.create_task(queue.enter("bob"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    queue.leave("ann")
    assert not queue.must_wait("bob")


async def test_a_turn_given_to_a_transfer_that_is_cancelled_goes_to_the_next() -> None:
    queue = TransferQueue(most=1, per_user_most=0)
    await queue.enter("ann")
    cancelled, following = asyncio.create_task(queue.enter("bob")), asyncio.create_task(queue.enter("eve"))
    await asyncio.sleep(0)
    queue.leave("ann")  # bob's turn, but he is cancelled before he goes on
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert cancelled.cancelled()
    await asyncio.wait_for(following, LIMIT_S)
    queue.leave("eve")
    assert not queue.must_wait("ann")


def test_the_load_of_the_disk_bounds_transfers() -> None:
    """Above the upper limit none starts, between the limits one for each that ends, below one more after a wait."""
    throttle = DiskThrottle(DiskThrottleSettings(1.8, 2.0, wait_s=60), 0.0)
    assert throttle.has_room(1000)
    throttle.worked(40.0)  # four at a time
    throttle.look(4, 10.0)
    assert throttle.load < 2.0 and throttle.most is None
    throttle.worked(400.0)
    throttle.look(4, 110.0)
    assert throttle.load > 2.0 and throttle.most == 4 and not throttle.has_room(4) and throttle.has_room(3)
    throttle.worked(5.7)
    throttle.look(3, 113.0)
    assert throttle.most == 3
    throttle.look(3, 140.0)  # the long average is still above the lower limit, or it is too early
    assert throttle.most == 3
    throttle.look(3, 2000.0)
    assert throttle.load < 0.1 and throttle.most == 4
    throttle.look(4, 2030.0)
    assert throttle.most == 4
    throttle.look(3, 2100.0)
    assert throttle.most == 4  # there is room as it is
    throttle.look(4, 2101.0)
    assert throttle.most == 5


async def test_transfers_of_both_directions_wait_for_the_disk() -> None:
    throttle = DiskThrottle(DiskThrottleSettings(1.8, 2.0), 0.0)
    uploads, downloads = TransferQueue(), TransferQueue()
    for queue in (uploads, downloads):
        queue.disk_has_room = lambda: throttle.has_room(uploads.active + downloads.active)
    throttle.most = 1
    await uploads.enter("ann")
    waiting = asyncio.create_task(downloads.enter("bob"))
    await asyncio.sleep(0)
    assert downloads.waiting == 1
    throttle.most = 2
    downloads.admit()
    await asyncio.wait_for(waiting, LIMIT_S)
    assert downloads.active == 1


@pytest.mark.parametrize(
    ("text", "limits"), [("2.0", (1.8, 2.0)), ("5 to 6.5", (5.0, 6.5)), ("5\tto\t5", (5.0, 5.0)), ("", None)]
)
def test_limits_of_the_load(text: str, limits: tuple[float, float] | None) -> None:
    assert parse_limits(text) == limits


@pytest.mark.parametrize("text", ["6 to 5", "0", "-1", "two", "5 6", "5 to", "1.2.3"])
def test_what_is_no_range_of_loads_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a range of loads"):
        parse_limits(text)

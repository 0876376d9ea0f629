"""When ads may expire: not in the first minutes after nobody could be heard."""

from slotwise.collector.expiry import Expiry


def test_a_standstill_spares_ads_until_all_have_had_a_chance_to_speak() -> None:
    expiry = Expiry(lifetime_s=900.0, spare_s=300.0)
    assert [expiry.due(now) for now in (0.0, 15.0, 31.0)] == [True, True, True]
    woke = 36_000.0  # the machine slept
    assert not expiry.due(woke)
    assert not expiry.due(woke + 15.0)
    looks = [woke + 15.0 * n for n in range(2, 21)]
    assert [expiry.due(now) for now in looks] == [False] * 18 + [True]


def test_a_pool_of_short_lifetimes_is_looked_at_often_and_spared_no_longer_than_they_are() -> None:
    expiry = Expiry(lifetime_s=4.0, spare_s=300.0)
    assert expiry.interval_s == 1.0
    assert expiry.due(0.0) and not expiry.due(60.0)
    assert not expiry.due(61.0) and expiry.due(64.0)

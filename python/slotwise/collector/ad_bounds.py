"""How many ads one sender may have in the collector, and how fast new ones may come. No I/O: times are arguments.

A host proves its name, and its ads are named after it: it may have as many as its slots and submitters are. A token
alone may be that of a whole fleet of glide-ins, whose names say nothing about who sends them: these count together,
and from one address (of IPv6 one network) new names come so many a minute. A refused ad is new again when its sender
sends it the next time, so a fleet that starts at once is there a little later. Few ads may be as much memory as many:
the bytes of an identity's ads are bounded, too. Administrators are not bounded.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.collector.ownership import Sender

#: Senders whose speed is remembered; those that have not sent anything new for a minute are forgotten before.
_REMEMBERED = 10_000
_MINUTE_S = 60.0


class AdLimits(Struct, frozen=True):
    """The bounds; 0: there is none.

    :param of_host: ads of a host that has proved its name (SLOTWISE_MAX_ADS_PER_HOST).
    :param of_identity: ads of all that show tokens of one identity (SLOTWISE_MAX_ADS_PER_IDENTITY).
    :param bytes_of_identity: bytes of the ads of one identity, also of a host's (SLOTWISE_MAX_AD_MB_PER_IDENTITY).
    :param new_a_minute: new names of such an identity from one address (SLOTWISE_MAX_NEW_ADS_PER_MINUTE).
    """

    of_host: int = 0
    of_identity: int = 0
    new_a_minute: int = 0
    bytes_of_identity: int = 0


class AdBounds:
    """Says how many further ads a sender may add."""

    def __init__(self, limits: AdLimits) -> None:
        self.limits = limits
        #: By identity and address: what is left of a minute's new names, and when that was so.
        self._left: dict[tuple[str, str], tuple[float, float]] = {}

    def room(self, sender: Sender, network: str, held: int, wanted: int, now: float) -> tuple[int, str]:
        """How many of ``wanted`` new ads the sender may add, which count as added, and the bound that stops the others.

        :param network: where it sends from, as bounds count it (``call.network_of``).
        :param held: ads that it has.
        :param now: seconds of a clock that never goes back.
        """
        if sender.is_administrator:
            return wanted, ""
        of_all, knob = self.limits.of_identity, "SLOTWISE_MAX_ADS_PER_IDENTITY"
        if sender.host:
            of_all, knob = self.limits.of_host, "SLOTWISE_MAX_ADS_PER_HOST"
        room = min(wanted, max(0, of_all - held)) if of_all else wanted
        if sender.host or not self.limits.new_a_minute:
            return room, f"{knob} = {of_all}"
        most = float(self.limits.new_a_minute)
        left = self._now_left((sender.identity.name, network), most, now)
        if left < room:
            room, knob, of_all = int(left), "SLOTWISE_MAX_NEW_ADS_PER_MINUTE", self.limits.new_a_minute
        self._left[(sender.identity.name, network)] = (left - room, now)
        return room, f"{knob} = {of_all}"

    def has_room_for(self, sender: Sender, held: int, growth: int) -> bool:
        """Whether the ads of a sender may grow by so many bytes.

        :param held: the bytes that they have.
        """
        most = self.limits.bytes_of_identity
        return sender.is_administrator or not most or growth <= 0 or held + growth <= most

    def _now_left(self, who: tuple[str, str], most: float, now: float) -> float:
        if who not in self._left and len(self._left) >= _REMEMBERED:
            recent = {key: entry for key, entry in self._left.items() if entry[1] + _MINUTE_S > now}
            self._left = recent if len(recent) < _REMEMBERED else {}
        left, at = self._left.get(who, (most, now))
        return min(most, left + (now - at) * most / _MINUTE_S)

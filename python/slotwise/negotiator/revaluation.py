"""Slots that take several matches between their updates (``WantAdRevaluate``).

Such a slot counts its matches in ``CurMatches``, which its own expressions may read. The count belongs to the
negotiator: it stays with the ad it was counted in until a newer ad takes its place, which ``STARTD_AD_REEVAL_EXPR``
decides (the old ad is MY, the new one TARGET; by default a greater UpdateSequenceNumber). Until then cycles see it.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.classad import ClassAd, ExprTree
from slotwise.matchmaking.rows import Match
from slotwise.negotiator.amended_slots import Replacement
from slotwise.table import AdTable


class Revaluation:
    """The ads with which cycles see such slots, by slot."""

    def __init__(self) -> None:
        self._stash: dict[str, ClassAd] = {}

    def replacements(self, table: AdTable, expr: ExprTree) -> list[Replacement]:
        """The stashed ads that the present ones do not replace yet, for a cycle to see."""
        if not self._stash and table.count("WantAdRevaluate") == 0:
            return []
        seen: dict[str, ClassAd] = {}
        kept: list[Replacement] = []
        for key in table.query_keys("WantAdRevaluate && UpdateSequenceNumber >= 0"):
            new = table.get(key)
            assert new is not None
            old = self._stash.get(key)
            # If the expression does not decide, the new ad wins.
            if old is None or expr.eval(old, new) is not False:
                seen[key] = new
            else:
                seen[key] = old
                kept.append(Replacement(key, old))
        self._stash = seen
        return kept

    def matched(self, matches: Iterable[Match]) -> None:
        """Count the matches of a cycle."""
        for row in matches:
            ad = self._stash.get(row.slot)
            if ad is not None:
                before = ad.eval("CurMatches") if "CurMatches" in ad else 0
                ad["CurMatches"] = (before if isinstance(before, int) else 0) + 1

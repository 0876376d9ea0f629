"""NegotiatorLog and MatchLog: the phases, matches and rejections of a cycle, in HTCondor's words.

Cycles that the timer begins and cycles that match something are logged; others only with D_FULLDEBUG, because there
may be many a second. Matches and rejections have the category D_MATCH, and a file of their own (NEGOTIATOR_MATCH_LOG).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from slotwise.matchmaking.engine import CycleOutcome
from slotwise.matchmaking.reports import CycleReport
from slotwise.matchmaking.rows import Refusal, Rejection, SlotCounts
from slotwise.negotiator.dispatch import Offers
from slotwise.negotiator.gather import AccessPoint, Demand
from slotwise.negotiator.in_flight import Offered
from slotwise.observe.log import ALSO_ALWAYS, category

_log = logging.getLogger(__name__)
_match = category("D_MATCH")
#: Seconds until a rejection for the same reason is logged again: cycles may follow each other closely.
AGAIN_S = 20.0


class CycleLog:
    """Logs the cycles of one negotiator."""

    def __init__(self) -> None:
        #: Reason and time of the last line by access point and first job of a request.
        self._rejected: dict[tuple[str, str], tuple[str, float]] = {}
        self._begun = False

    def begun(self, number: int, why: str) -> None:
        """A cycle begins."""
        self._begun = why == "timer" or _log.isEnabledFor(logging.DEBUG)
        if self._begun:
            _log.info("---------- Started Negotiation Cycle %d (%s) ----------", number, why)

    def decided(
        self, number: int, why: str, outcome: CycleOutcome, demand: Demand, schedds: int, slots: int, gather_s: float
    ) -> None:
        """Log the requests and each submitter's share."""
        if not self._begun and len(outcome):
            self._begun = True
            _log.info("---------- Started Negotiation Cycle %d (%s) ----------", number, why)
        if not self._begun:
            return
        _log.info(
            "Phase 1:  Obtained requests from %d schedds in %.1f ms: %d jobs in %d requests of %d submitters, %d slots",
            schedds,
            gather_s * 1e3,
            demand.jobs,
            len(demand),
            len(demand.submitters),
            slots,
        )
        if not len(demand):
            return
        _log.info("Phase 4.1:  Negotiating with schedds ...")
        for row in outcome.submitters():
            _log.info(
                "  Negotiated with %s: priority %.2f, %s, %d matched%s",
                row.name,
                row.effective_priority,
                "no share" if row.limit is None else f"share {row.limit:.2f} slots",
                row.matched,
                _held_back(row.held_back),
            )

    def matched(
        self, made: Iterable[Offered], demand: Demand, points: Mapping[str, AccessPoint], offers: Offers
    ) -> None:
        """Log a line for each match ``made`` that its schedd has accepted."""
        told = (match for batch in offers.batches.values() for group in batch.submitters for match in group.matches)
        addresses = {match.slot_name: match.startd_address for match in told}
        for row in (offered.match for offered in made):
            schedd, submitter, _, first_job = demand.origins[row.request]
            slot = row.slot
            _match.log(
                ALSO_ALWAYS,
                "      Matched %s %s <%s> preempting %s <%s> %s%s",
                row.job or first_job,
                submitter,
                _target(points, schedd),
                row.preempts or "none",
                addresses.get(slot, ""),
                slot,
                " (offline)" if row.offline else "",
            )

    def rejected(self, rows: Iterable[Refusal], demand: Demand, points: Mapping[str, AccessPoint], now: float) -> None:
        """Log a line for each request that got nothing, or nothing more; the same reason only now and then."""
        self._rejected = {key: known for key, known in self._rejected.items() if now - known[1] < AGAIN_S}
        for row in rows:
            schedd, submitter, _, job = demand.origins[row.request]
            reason = row.reason
            if self._rejected.get((schedd, job), ("", 0.0))[0] == reason:
                continue
            self._rejected[schedd, job] = (reason, now)
            _match.info("      Rejected %s %s <%s>: %s", job, submitter, _target(points, schedd), reason)
            slots = row.slots if isinstance(row, Rejection) else None
            if slots is not None and (counts := _counts(slots)):
                _match.debug("        matching slots left out for %s: %s", job, counts)

    def finished(self, report: CycleReport) -> None:
        """The cycle's end."""
        if self._begun:
            _log.info(
                "---------- Finished Negotiation Cycle %d: %d matched, %d rejected, %.1f ms"
                " (gather %.1f, match %.1f, dispatch %.1f) ----------",
                report.number,
                report.matches,
                len(report.rejections),
                report.duration_s * 1e3,
                report.gather_s * 1e3,
                float(report.timings.get("total_s", 0.0)) * 1e3,
                report.dispatch_s * 1e3,
            )


def _held_back(found: tuple[str, int] | None) -> str:
    return f", {found[1]} jobs held back: {found[0]}" if found else ""


def _counts(slots: SlotCounts) -> str:
    return ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in slots.as_dict().items() if count)


def _target(points: Mapping[str, AccessPoint], schedd: str) -> str:
    point = points.get(schedd)
    return point.target if point is not None else schedd

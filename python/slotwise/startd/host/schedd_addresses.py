"""Where the schedds of claims answer: a schedd that comes back elsewhere finds its claims and runs again.

A schedd without a port of its own has another one after each start. It names its address with every hello; the
claim's record takes it, and the starter moves the runs of the claim. Only who holds the claim is heeded: it knows the
claim id, has the name that the claim was made under, and is the caller that made it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.outbox import ShadowMoved
from slotwise.startd.records.slot_record import Activation, SlotRecord, Terms

_log = logging.getLogger(__name__)


class ScheddAddresses:
    """Keeps the addresses of schedds in the records of claims, and at the starter."""

    def __init__(self, host: HostState) -> None:
        self._host = host

    def greeted(self, claimed: Iterable[SlotRecord], schedd: Terms) -> None:
        """A schedd has said hello, and named these slots with the ids of their claims."""
        runs = [run_id for record in claimed for run_id in self._take(record, schedd)]
        self._tell(runs, schedd.schedd_address)

    def _take(self, record: SlotRecord, schedd: Terms) -> list[str]:
        """Have the record of a claim name the address; returns the runs that the starter has to move."""
        terms, address = record.terms, schedd.schedd_address
        if not address:
            return []
        if not terms.are_of(schedd):
            if terms.schedd_address != address:
                _log.warning(
                    "%s: the schedd %s (%s) names the claim of %s (%s), whose run stays with %s",
                    record.name, schedd.schedd_name, schedd.caller, terms.schedd_name, terms.caller,
                    terms.schedd_address,
                )  # fmt: skip
            return []
        if terms.caller != schedd.caller:  # a former version has not noted it
            record.terms = terms = replace(terms, caller=schedd.caller)
            self._host.outbox.save(record.name)
        # Repeated with every hello: the list of the starter does not say where the ends of runs are to go.
        runs = [terms.ended_run] if terms.ended_run else []
        if terms.schedd_address != address:
            _log.info("%s: the schedd %s answers at %s now", record.name, terms.schedd_name, address)
            record.terms = replace(terms, schedd_address=address)
            self._host.outbox.save(record.name)
        if record.queued is not None:
            activation = replace(record.queued.activation, shadow_address=address)
            record.queued = replace(record.queued, activation=activation)
        known = _activation_of_run(record)
        if known is not None and known.shadow_address != address:
            record.activation = replace(known, shadow_address=address)
            self._host.outbox.save(record.name)
            runs.append(known.run_id)
        return runs

    def activated_again(self, record: SlotRecord, activation: Activation, schedd: Terms) -> None:
        """A schedd has repeated the activation of the run that the slot has, or that waits for it."""
        for known in (record.activation, record.queued.activation if record.queued is not None else None):
            if known is None or known.run_id != activation.run_id:
                continue
            if known.run_token == activation.run_token and activation.shadow_address != known.shadow_address:
                self.greeted([record], replace(schedd, schedd_address=activation.shadow_address))

    def agree(self, known: Mapping[str, str]) -> None:
        """Repeat what may have been lost with a stream or a starter.

        :param known: where the starter looks for the shadow of each run; empty when it has none, or does not say.
        """
        moved: dict[str, list[str]] = {}
        for run_id, there in known.items():
            record = self._host.slots.of_run(run_id)
            activation = _activation_of_run(record) if record is not None else None
            if activation is not None and there and activation.shadow_address not in ("", there):
                moved.setdefault(activation.shadow_address, []).append(run_id)
        for address, runs in moved.items():
            self._tell(runs, address)

    def _tell(self, runs: list[str], address: str) -> None:
        if runs:
            self._host.outbox.starter.append(ShadowMoved(tuple(runs), address))


def _activation_of_run(record: SlotRecord) -> Activation | None:
    """How a schedd has activated the run that the slot has; None when it has none, or one of fetched work."""
    run, activation = record.slot.run, record.activation
    if run is None or activation is None or activation.run_id != run.run_id or activation.fetched:
        return None
    return activation

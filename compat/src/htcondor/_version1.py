"""``Schedd`` and ``Submit`` as version 1 had them: jobs are queued in a transaction of the schedd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import htcondor2
from classad2 import ClassAd
from htcondor2 import JobAction, SubmitResult


class Transaction:
    """What `Submit.queue` queues jobs in. Each submission is durable at once; those of a transaction that ends with an
    exception are removed again."""

    def __init__(self, schedd: htcondor2.Schedd) -> None:
        self.schedd = schedd
        self.clusters: list[str] = []


class Schedd(htcondor2.Schedd):
    """An access point, with version 1's transactions."""

    @contextmanager
    def transaction(self, flags: int = 0, continue_txn: bool = False) -> Iterator[Transaction]:
        """A transaction for `Submit.queue`; both arguments have no effect."""
        made = Transaction(self)
        try:
            yield made
        except BaseException:
            if made.clusters:
                self.act(JobAction.Remove, made.clusters, "the transaction was aborted")
            raise


class Submit(htcondor2.Submit):
    """A submit description, with version 1's ways to queue; its values may be bytes."""

    def __init__(self, input: str | dict[str, Any] | None = None, queue: str | None = None, **kwargs: str) -> None:
        if isinstance(input, dict):
            input = {key: value.decode() if isinstance(value, bytes) else value for key, value in input.items()}
        super().__init__(input, queue, **kwargs)

    def queue(self, txn: Transaction, count: int = 0, ad_results: list[ClassAd] | None = None) -> int:
        """Queue the jobs; returns their cluster id. ``ad_results`` receives an ad for each job."""
        done = self._queue_in(txn, count)
        if ad_results is not None:
            for proc in range(done.num_procs()):
                ad = ClassAd({name: done.clusterad().lookup(name) for name in done.clusterad()})
                ad["ProcId"] = proc
                ad_results.append(ad)
        return int(done.cluster())

    def queue_with_itemdata(
        self, txn: Transaction, count: int = 1, itemdata: Iterable[Any] | None = None, spool: bool = False
    ) -> SubmitResult:
        """Queue ``count`` jobs for each item."""
        return self._queue_in(txn, count, itemdata, spool)

    def _queue_in(
        self, txn: Transaction, count: int, itemdata: Iterable[Any] | None = None, spool: bool = False
    ) -> SubmitResult:
        if not isinstance(txn, Transaction):
            raise TypeError("txn must come from Schedd.transaction()")
        if itemdata is None:
            done = txn.schedd.submit(self, count, spool)
        else:
            done = txn.schedd.submit(self, count, spool, itemdata=iter(itemdata))
        txn.clusters.append(str(done.cluster()))
        return done

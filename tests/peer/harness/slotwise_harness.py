"""A plugin for the pytest that runs HTCondor's tests: what ornithology needs to follow a pool of ours.

It runs in the process of the tests, beside HTCondor's packages, and imports nothing of this project's tests.

There is no ``job_queue.log`` here, in which ornithology reads what becomes of jobs. Its entries are made of the pool's
event log, which has the changes of states in their order, and of queries, which have the rest of the ads.

``PEER_RECORDS`` names the file that gets a line for each phase of each case as it ends, so that a run that is killed
keeps what it had.
"""

from __future__ import annotations

import json
import os
import re
import time

import pytest

#: An entry of an event log: number, cluster, process.
_EVENT = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\) ")
#: The JobStatus that an event leads to.
_STATUS = {
    "000": "1",
    "001": "2",
    "004": "1",
    "005": "4",
    "007": "1",
    "009": "3",
    "010": "7",
    "011": "2",
    "012": "5",
    "013": "1",
}
_EVICTED, _HELD, _REMOVED = "004", "012", "009"
_ENTRY_ENDS = b"\n...\n"
#: Seconds between queries for jobs that have not been seen yet.
_ASK_S = 0.5
_MOST_HISTORY = 2000


def _record(**values: object) -> None:
    with open(os.environ["PEER_RECORDS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def pytest_collection_finish(session):
    for item in session.items:
        _record(case=item.nodeid, phase="found")


def pytest_collectreport(report):
    if report.failed:
        _record(case=report.nodeid, phase="collect", outcome="failed")


def pytest_runtest_logreport(report):
    expected = hasattr(report, "wasxfail")
    _record(case=report.nodeid, phase=report.when, outcome=report.outcome, expected_to_fail=expected)


def _text(value: object) -> str:
    import classad2

    if isinstance(value, bool):
        return "true" if value else "false"
    return classad2.quote(value) if isinstance(value, str) else str(value)


class _Follower:
    """Makes the transactions of a pool's queue."""

    def __init__(self, condor) -> None:
        self._condor = condor
        self._offset = 0
        #: What has been told of each job.
        self._told: dict[tuple[int, int], dict[str, str]] = {}
        #: Jobs that no query has shown yet.
        self._unseen: set[tuple[int, int]] = set()
        self._ask_at = 0.0

    def transactions(self):
        """What is new, as lists of (job id, event)."""
        from ornithology import job_queue, jobs

        moves = list(self._moves())
        if not moves and not (self._unseen and time.monotonic() > self._ask_at):
            return
        self._ask_at = time.monotonic() + _ASK_S
        ads = self._ads({key for key, _ in moves} | self._unseen)
        for key in sorted(self._unseen & ads.keys()):
            self._unseen.discard(key)
            yield self._changes(jobs.JobID(*key), self._told[key], ads[key])
        last = {key: index for index, (key, _) in enumerate(moves)}
        for index, (key, status) in enumerate(moves):
            told, job, transaction = self._told.setdefault(key, {}), jobs.JobID(*key), []
            if told.get("JobStatus") != status:
                transaction.append((job, job_queue.SetAttribute("JobStatus", status)))
                told["JobStatus"] = status
            if key not in ads:
                self._unseen.add(key)
            elif len(told) == 1 or index == last[key]:
                transaction += self._changes(job, told, ads[key])
            if transaction:
                yield transaction

    def _moves(self):
        """(job, its new status) in the order of the event log, as far as that has been written."""
        path = self._condor.local_dir / "peer_events"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text.rfind(_ENTRY_ENDS)
        if whole < 0:
            return
        self._offset += whole + len(_ENTRY_ENDS)
        lines = text[:whole].decode(errors="replace").splitlines()
        events = [(found[1], (int(found[2]), int(found[3]))) for line in lines if (found := _EVENT.match(line))]
        for index, (number, key) in enumerate(events):
            following = next((other for other, whose in events[index + 1 :] if whose == key), "")
            if number == _EVICTED and following in (_HELD, _REMOVED):
                continue  # it is not idle between
            if number in _STATUS:
                yield key, _STATUS[number]

    def _ads(self, wanted):
        import htcondor2

        try:
            with self._condor.use_config():
                schedd = htcondor2.Schedd()
                found = {(ad["ClusterId"], ad["ProcId"]): ad for ad in schedd.query()}
                if wanted - found.keys():
                    for ad in schedd.history("true", [], _MOST_HISTORY):
                        found.setdefault((ad["ClusterId"], ad["ProcId"]), ad)
        except htcondor2.HTCondorException:
            if self._condor.master_is_alive:
                raise
            return {}
        return found

    @staticmethod
    def _changes(job, told, ad):
        from ornithology import job_queue

        now = {name: _text(value) for name, value in ad.items() if name not in ("JobStatus", "LastJobStatus")}
        changes = [(job, job_queue.SetAttribute(name, value)) for name, value in now.items() if told.get(name) != value]
        told.update(now)
        return changes


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    from ornithology import job_queue

    def read_transactions(self):
        follower = self.__dict__.setdefault("_slotwise", None) or _Follower(self.condor)
        self._slotwise = follower
        for events in follower.transactions():
            for job, event in events:
                self.by_jobid[job].append(event)
            transaction = job_queue.JobQueueTransaction(events)
            self.transactions.append(transaction)
            yield transaction

    job_queue.JobQueue.read_transactions = read_transactions

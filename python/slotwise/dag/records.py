"""What became of a node's jobs and scripts in its present attempt, beside its state: codes, and why it failed. Pure."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from slotwise.dag.acts import Happened

#: The lowest negative number of a signal; what is below is an error of the runner's own.
_SIGNALS = -64


class Record(Struct):
    """Of one node.

    :ivar submissions: clusters that it has had, in all attempts.
    :ivar codes: what its jobs ended with, by process; a signal is its negative number.
    :ivar holds: times that its jobs were held.
    :ivar pre: what its PRE script ended with; -1: it has none.
    :ivar why: why it failed.
    """

    cluster: int = -1
    proc: int = 0
    submissions: int = 0
    jobs: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    aborted: int = 0
    holds: int = 0
    pre: int = -1
    why: str = ""

    def begin(self) -> None:
        """A new attempt begins."""
        self.codes, self.jobs, self.aborted, self.holds, self.pre, self.why = {}, 0, 0, 0, -1, ""

    def note(self, event: Happened, cluster: int, proc: int) -> None:
        """Take an event of its jobs."""
        if event.name == "submit":
            if cluster != self.cluster or not cluster:
                self.submissions += 1
                self.codes, self.jobs, self.aborted, self.holds, self.why = {}, 0, 0, 0, ""
            self.cluster, self.proc = cluster, proc
            self.jobs += 1
        elif event.name == "terminated":
            self.codes[event.number] = event.value
            if event.value > 0:
                self._failed(f"Job proc ({cluster}.{proc}.0) failed with status {event.value}")
            elif event.value < 0:
                self._failed(f"Job proc ({cluster}.{proc}.0) failed with signal {-event.value}")
        elif event.name == "aborted":
            self.aborted += 1
            self._failed(f"HTCondor reported ULOG_JOB_ABORTED event for job proc ({cluster}.{proc}.0)")
        elif event.name == "held":
            self.holds += 1
        elif event.name in ("retry", "skip"):
            self.begin()

    def _failed(self, why: str) -> None:
        self.why = self.why or why

    def pre_ended(self, value: int) -> None:
        """Its PRE script has ended."""
        self.pre = value
        if value:
            how = f"status {value}" if value > 0 else f"signal {-value}"
            self.why = f"PRE Script failed with {how}"

    def post_ended(self, value: int, result: int, *, final: bool) -> None:
        """Its POST script has ended; ``result``: of its jobs. ``final``: UNLESS-EXIT ends its attempts by that."""
        if not value:
            self.why = ""
            return
        how = f"status {value}" if value > 0 else f"signal {-value}"
        if final:
            self.why = f"POST script failed with {how}"
        elif self.why.startswith("PRE Script"):
            self.why = f"{self.why} and POST Script failed with {how}"
        elif result > 0:
            self.why = f"Job exited with status {result} and POST Script failed with {how}"
        elif _SIGNALS <= result < 0:
            self.why = f"Job died on signal {-result} and POST Script failed with {how}"
        else:
            self.why = f"Job failed due to DAGMAN error {result} and POST Script failed with {how}"

    def macros(self, result: int) -> dict[str, str]:
        """The macros of a script that runs when there is a job; ``result``: its jobs' value so far."""
        counts = Counter(self.codes.values())
        return {
            "JOBID": f"{self.cluster}.{self.proc}",
            "CLUSTERID": str(self.cluster),
            "JOB_COUNT": str(self.jobs),
            "JOB_ABORT_COUNT": str(self.aborted),
            "SUCCESS": str(result == 0),
            "RETURN": str(result),
            "EXIT_CODES": ",".join(str(code) for code in sorted(counts)),
            "EXIT_CODE_COUNTS": ",".join(f"{code}:{counts[code]}" for code in sorted(counts)),
            "EXIT_CODE_LIST": ",".join(str(self.codes.get(proc, "")) for proc in range(self.jobs)).lstrip(","),
            "PRE_SCRIPT_RETURN": str(self.pre),
        }


__all__ = ["Record"]

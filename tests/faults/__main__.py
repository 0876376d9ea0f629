"""Faults on a live pool for some time, dealt from a seed; then what is lost, doubled or stuck.

Each job writes its start and its end into a ledger, and takes a lock that a second instance of it at the same time
would miss. At the end the ledger, the event logs, the history and the outputs are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.blows import Blows
from tests.faults.set_time import SetTime, library
from tests.faults.site import one_host, refusal, several_hosts
from tests.faults.verdict import Seen, judge
from tests.support.pool import Pool

#: What cannot be written on a full disk is the job's own loss: it fails, and is run again.
SCRIPT = """#!/bin/sh -e
exec 9>>"$1/locks/$2"
flock -n 9 || echo "twice $2" >> "$1/ledger"
echo "start $2" >> "$1/ledger"
sleep "$3"
echo "said by $2"
echo "made by $2" > "made.$2"
echo "end $2" >> "$1/ledger"
"""
#: Jobs that are kept in the queue, and those of one submission.
IN_QUEUE, AT_A_TIME = 40, 10
#: How long a job runs on without its access point, and how long nothing may change at the end before what is left
#: counts as stuck, seconds.
LEASE_S, QUIET_S = 60, 300
_ENTRY = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.MULTILINE)


class Trial:
    """The jobs of a pool, and what is seen of them.

    :param base: a directory for their ledger and locks.
    :param pool: the access point.
    :param users: where event logs and outputs go.
    """

    def __init__(self, base: Path, pool: Pool, users: Path) -> None:
        self._pool, self._base, self._users = pool, base, users
        self._acknowledged: set[str] = set()
        (users / "logs").mkdir()
        # Where this is run by root, jobs run as nobody.
        base.chmod(0o755)
        (base / "locks").mkdir()
        (base / "ledger").touch()
        for path in (base / "locks", base / "ledger"):
            path.chmod(0o777)
        self._script = base / "job.sh"
        self._script.write_text(SCRIPT)
        self._script.chmod(0o755)

    @property
    def submitted(self) -> int:
        """Jobs that were acknowledged."""
        return len(self._acknowledged)

    def feed(self, choose: random.Random) -> None:
        """Submit a cluster if there is little left to do; else release what a fault has held."""
        ended = sum(1 for seen in self.events().values() if seen["005"])
        if self.submitted - ended >= IN_QUEUE:
            self._pool.run("release", "-all", check=False)
            return
        description = self._base / "job.sub"
        description.write_text(
            f"executable = {self._script}\n"
            f"arguments = {self._base} $(Cluster).$(Process) {choose.uniform(0, 6):.1f}\n"
            f"initialdir = {self._users}\nshould_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"
            "transfer_output_files = made.$(Cluster).$(Process)\noutput = said.$(Cluster).$(Process)\n"
            f"log = {self._users}/logs/$(Cluster)\nrequest_memory = 10\nrequest_disk = 100\n"
            f"max_retries = 1000\njob_lease_duration = {LEASE_S}\nqueue {AT_A_TIME}\n"
        )
        done = self._pool.run("submit", "-terse", str(description), check=False)
        if done.returncode == 0 and (found := re.match(r"(\d+)\.", done.stdout)):
            self._acknowledged.update(f"{found[1]}.{proc}" for proc in range(AT_A_TIME))

    def events(self) -> dict[str, Counter[str]]:
        """Per job, how often each number of an event is in its log."""
        found: dict[str, Counter[str]] = {}
        for log in (self._users / "logs").iterdir():
            for number, cluster, proc in _ENTRY.findall(log.read_text(errors="replace")):
                found.setdefault(f"{int(cluster)}.{int(proc)}", Counter())[number] += 1
        return found

    def queue(self) -> dict[str, int]:
        """JobStatus of the jobs in the queue, by id."""
        said = self._pool.run("q", "-allusers", "-af", "ClusterId", "ProcId", "JobStatus").stdout
        return {f"{cluster}.{proc}": int(status) for cluster, proc, status in map(str.split, said.splitlines())}

    def drain(self) -> Counter[str]:
        """Let all jobs end; those that a fault has held are released. Returns why, by hold code."""
        holds: Counter[str] = Counter()
        last, changed_at = (0, 0), time.monotonic()
        while left := self.queue():
            now = len(left), sum(sum(seen.values()) for seen in self.events().values())
            if now != last:
                last, changed_at = now, time.monotonic()
            elif time.monotonic() - changed_at > QUIET_S:
                break
            if 5 in left.values():
                said = self._pool.run("q", "-allusers", "-hold", "-af", "HoldReasonCode", "HoldReason").stdout
                holds.update(line[:100] for line in said.splitlines())
                self._pool.run("release", "-all", check=False)
            time.sleep(1)
        return holds

    def seen(self) -> Seen:
        """All that is left."""
        said = self._pool.run("history", "-af", "ClusterId", "ProcId", "JobStatus").stdout
        rows = [line.split() for line in said.splitlines()]
        return Seen(
            acknowledged=self._acknowledged,
            ledger=(self._base / "ledger").read_text().splitlines(),
            events=self.events(),
            history=[(f"{cluster}.{proc}", int(status)) for cluster, proc, status in rows],
            queue=set(self.queue()),
            outputs={key for key in self._acknowledged if self._has_outputs(key)},
        )

    def _has_outputs(self, key: str) -> bool:
        with contextlib.suppress(OSError):
            said, made = ((self._users / f"{name}.{key}").read_text() for name in ("said", "made"))
            return (said, made) == (f"said by {key}\n", f"made by {key}\n")
        return False


def run(seed: int, minutes: float, keep: bool, one: bool) -> int:
    """Returns the exit status.

    :param one: on one host, even where there can be several.
    """
    choose = random.Random(seed)
    base = Path(tempfile.mkdtemp(prefix="sw-faults-", dir="/var/tmp"))
    if not one and (why := refusal()):
        print(f"on one host: {why}")
        one = True
    with contextlib.ExitStack() as undo:
        if not keep:
            undo.callback(shutil.rmtree, base, ignore_errors=True)
        site = undo.enter_context((one_host if one else several_hosts)(base))
        clock: SetTime | None = None
        if library():
            for host in site.hosts:
                host.forks = False  # the clocks of its processes are set by a library
            clock = SetTime(site.hosts, base / "time")
        else:
            print("no clock jumps: libfaketime is not here")
        trial = Trial(base, site.access_point, site.users)
        dealt: Counter[str] = Counter()
        try:
            site.up()
            blows = Blows(site, choose, clock)
            print(f"seed {seed}, {minutes:g} minutes, {base}: {', '.join(sorted(blows.kinds))}", flush=True)
            began = time.monotonic()
            while (passed_s := time.monotonic() - began) < 60 * minutes:
                trial.feed(choose)
                what = blows.deal()
                dealt[what.partition(":")[0]] += 1
                print(f"{passed_s:7.1f} s  {trial.submitted:6} jobs  {what}", flush=True)
                time.sleep(choose.uniform(0, 4))
            blows.heal()
            holds = trial.drain()
            verdict = judge(trial.seen())
            print(f"\n{sum(dealt.values())} faults: {', '.join(f'{n} {kind}' for kind, n in sorted(dealt.items()))}")
            print(f"{trial.submitted} jobs acknowledged; seed {seed}")
            for reason, count in holds.most_common(10):
                print(f"held and released: {count} times {reason}")
            print("\n".join(verdict.lines()))
            return 1 if verdict else 0
        finally:
            if keep:
                for number, host in enumerate(site.hosts):
                    shutil.copytree(host.home.log, base / f"log-of-daemons.{number}", dirs_exist_ok=True)


def main() -> int:
    """Exit status 1 where a job is lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="make test-faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--keep", action="store_true", help="leave what the jobs wrote, and the daemons' logs")
    parser.add_argument("--one-host", action="store_true", help="even where hosts can be network namespaces")
    asked = parser.parse_args()
    return run(asked.seed, asked.minutes, asked.keep, asked.one_host)


if __name__ == "__main__":
    sys.exit(main())

"""The logs of a real pool tell what happened: one job is followed by its id through all daemons."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

CONFIG = """
NUM_CPUS = 2
MEMORY = 2048
NEGOTIATOR_INTERVAL = 5
"""
#: What begins each line: date, time, and the process id where <SUBSYS>_DEBUG has D_PID.
HEADER = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\(pid:\d+\) )?"
RUN = r"1\.0#\d+"
SLOT = r"slot1_\d+@\S+"
USER = r"\S+@\S+"


class Logs:
    """The logs of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def lines(self, name: str) -> list[str]:
        """The messages of a log without their headers; every line must be an entry or belong to a traceback."""
        path = self._pool.home.log / name
        found = path.read_text().splitlines() if path.exists() else []
        for line in found:
            assert re.match(HEADER, line) or line.startswith("\t"), (name, line)
            assert line.replace("\t", "").isprintable(), (name, line)
        return [re.sub(HEADER, "", line) for line in found]

    def of(self, name: str, job: str) -> list[str]:
        """The lines with the job's id in them as ``grep -w`` finds it."""
        return [line for line in self.lines(name) if re.search(rf"(?<!\w){re.escape(job)}(?!\w)", line)]

    def has(self, name: str, *patterns: str) -> bool:
        """Whether the patterns match lines of a log, one after the other."""
        lines = iter(self.lines(name))
        return all(any(re.search(pattern, line) for line in lines) for pattern in patterns)


def test_one_job_is_followed_through_all_logs(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    logs = Logs(pool)
    pool.up()
    (pool.root / "in.txt").write_text("12345")
    (pool.root / "job.sh").write_text(
        "#!/bin/sh\necho begun > result\ngrep -q '^NumShadowStarts = 3' $_CONDOR_JOB_AD && exit 3\nexec sleep 300\n"
    )
    (pool.root / "job.sub").write_text(
        "executable = job.sh\ntransfer_input_files = in.txt\nshould_transfer_files = yes\n"
        "when_to_transfer_output = ON_EXIT_OR_EVICT\nrequest_memory = 64\nrequest_cpus = 1\nqueue\n"
    )

    def state() -> str:
        return pool.run("q", "1.0", "-af", "JobStatus", "NumShadowStarts").stdout.strip()

    pool.run("submit", "job.sub")
    pool.until("the job runs", lambda: logs.has("StarterLog", "1.0: started as pid"))
    pool.run("hold", "1.0")
    pool.until("its run has ended", lambda: logs.has("SchedLog", rf"1.0: stopped on {SLOT}"))
    pool.run("qedit", "1.0", "Note", '"a\\nb"')
    pool.run("release", "1.0")
    pool.until("the job runs again", lambda: logs.has("StarterLog", *["1.0: started as pid"] * 2))
    pool.run("vacate-job", "1.0")
    pool.until("the job has ended", lambda: not state(), limit_s=2 * LIMIT_S)
    (pool.root / "big.sub").write_text("executable = /bin/true\nrequest_memory = 1000G\nqueue\n")
    pool.run("submit", "big.sub")
    pool.until("it is rejected", lambda: logs.has("MatchLog", "Rejected 2.0 "))
    pool.run("rm", "2.0")
    pool.run("rm", "2.0", check=False)
    pool.run("userprio", "-setfactor", "ann@here", "5")
    pool.run("reconfig")
    pool.down()

    expected = {
        "SchedLog": [
            rf"1\.0 \(cluster 1, 1 job\): submitted by {USER} from a local socket",
            rf"1\.0: matched with slot1@\S+ at \S+, requesting its claim for {USER}",
            rf"1\.0: claimed {SLOT} for {USER}",
            rf"1\.0: started on {SLOT} \(run 1\.0#1\)",
            r"1\.0: put on hold: via condor_hold \(by user \S+\) \(code 1, subcode 0\)",
            rf"hold of 1\.0 by {USER} from a local socket: 1 success",
            rf"1\.0: stopped on {SLOT} after \d+ s \(run 1\.0#1\): via condor_hold .* \(code 1, subcode 0\)",
            rf"1\.0: Note set by {USER}",
            rf"edit of 1\.0 by {USER} from a local socket: Note = .*: 1 success",
            r"1\.0: released: via condor_release \(by user \S+\)",
            rf"1\.0: started on {SLOT} \(run 1\.0#2\)",
            rf"1\.0: vacating {SLOT} \(run 1\.0#2\): .*",
            rf"1\.0: evicted from {SLOT} after \d+ s \(run 1\.0#2\): .* \(code \d+, subcode 0\)",
            rf"1\.0: started on {SLOT} \(run 1\.0#3\)",
            rf"1\.0: exited with status 3 on {SLOT} after \d+ s \(run 1\.0#3\)",
        ],
        "MatchLog": [rf"      Matched 1\.0 {USER} <\S+> preempting none <\S+> slot1@\S+"] * 2,
        "NegotiatorLog": [rf"      Matched 1\.0 {USER} <\S+> preempting none <\S+> slot1@\S+"] * 2,
        "StartLog": [
            rf"{SLOT} \(job 1\.0\): Claimed/Idle -> Claimed/Busy: activated for {USER} \(run 1\.0#1\)",
            rf"{SLOT} \(job 1\.0\): Claimed/Busy -> \S+: .*",
            rf"{SLOT} \(job 1\.0\): Claimed/Idle -> Claimed/Busy: activated for {USER} \(run 1\.0#2\)",
            rf"{SLOT} \(job 1\.0\): Claimed/Idle -> Claimed/Busy: activated for {USER} \(run 1\.0#3\)",
            # The schedd's release of the claim may come before the starter's word that the job has ended.
            rf"{SLOT} \(job 1\.0\): Claimed/Busy -> (Claimed/Idle: the job ended \(run 1\.0#3\)|"
            r"Preempting/Vacating: no job is left for the slot \(code 1017\))",
        ],
        "StarterLog": [
            r"1\.0: accepted by the shadow at \S+, runs as .* \(run 1\.0#1\)",
            r"1\.0: received 2 files, \d+ bytes",
            rf"1\.0: started as pid \d+ on {SLOT} \(run 1\.0#1\)",
            rf"1\.0: evicted on {SLOT} \(run 1\.0#1\): via condor_hold \(by user \S+\) \(code 1, subcode 0\)",
            rf"1\.0: started as pid \d+ on {SLOT} \(run 1\.0#2\)",
            rf"1\.0: evicted on {SLOT} \(run 1\.0#2\): .*",
            r"1\.0: sent \d+ files?, \d+ bytes",
            rf"1\.0: started as pid \d+ on {SLOT} \(run 1\.0#3\)",
            r"1\.0: exited with status 3 after \d+\.\d s \(run 1\.0#3\)",
        ],
    }
    for name, patterns in expected.items():
        lines = logs.of(name, "1.0")
        rest = iter(lines)
        for pattern in patterns:
            assert any(re.fullmatch(pattern, line) for line in rest), (name, pattern, lines)
    assert logs.has("SchedLog", r"2\.0: removed: via condor_rm", r"remove of 2\.0 .*: 1 not found")
    assert logs.has("MatchLog", rf"^      Rejected 2\.0 {USER} <\S+>: no match found")
    assert logs.has(
        "NegotiatorLog",
        r"^---------- Started Negotiation Cycle \d+ \(",
        r"^Phase 1:  Obtained requests from 1 schedds",
        r"^Phase 4.1:  Negotiating with schedds",
        rf"^  Negotiated with {USER}: priority ",
        r"^      Matched 1\.0 ",
        r"^---------- Finished Negotiation Cycle \d+: 1 matched",
    )
    assert logs.has(
        "CollectorLog", "inserted 1 Machine ads: slot1@", rf"inserted \d Machine ads: {SLOT}", "removed .* Machine ads"
    )
    for name, command in (("NegotiatorLog", "Negotiator/EditAccounting"), ("StartLog", "Daemon/Reconfig")):
        assert logs.has(name, rf"^received command {command} from {USER} a local socket, access level ADMINISTRATOR$")
    assert logs.has("MasterLog", "started schedd, pid", "all daemons are running")


def test_a_refused_caller_and_the_startds_reason_reach_the_log(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG + "SCHEDD_DEBUG = D_COMMAND\nMAXJOBRETIREMENTTIME = 0\nPREEMPT = TotalJobRunTime > 2\n")
    logs = Logs(pool)
    pool.up()
    (pool.root / "job.sub").write_text("executable = /bin/sleep\narguments = 300\nqueue\n")
    pool.run("submit", "job.sub")
    pool.until(
        "the job was preempted",
        lambda: logs.has("SchedLog", rf"1\.0: evicted from {SLOT} after \d+ s .*PREEMPT.* \(code 1011, subcode 0\)"),
        limit_s=2 * LIMIT_S,
    )
    assert logs.has("StartLog", r"\(job 1\.0\): Claimed/Busy -> Preempting/\w+: .*PREEMPT.* \(code 1011\)")
    wrong = pool.root / "wrong.token"
    wrong.write_text("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5AaGVyZSJ9.bm9ib2R5")
    wrong.chmod(0o600)
    pool.run("rm", "1.0", check=False, SLOTWISE_TOKEN_FILE=str(wrong))
    pool.until("the refusal is logged", lambda: logs.has("SchedLog", "PERMISSION DENIED to an unauthenticated user"))
    assert logs.has("SchedLog", rf"received command Schedd/SubmitOne from {USER} a local socket, access level WRITE")
    pool.down()

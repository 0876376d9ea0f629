"""``htcondor NOUN VERB``: words of the call, sentences about jobs, health of daemons, logs that grow."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.htcondor import health, job
from slotwise.cli.htcondor.main import NOUNS, main
from slotwise.cli.htcondor.verb import size, time_span

SUBMIT = "000 (007.000.000) 2026-03-01 10:00:00 Job submitted from host: <10.0.0.1:9618>\n...\n"
EXECUTE = "001 (007.000.000) 2026-03-01 10:05:00 Job executing on host: <10.0.0.21:9618>\n\tSlotName: slot1@a\n...\n"


def run(directory: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(directory, {"HOME": str(directory)}, io.StringIO(), out, err, called="htcondor")
    return main(list(words), inv), out.getvalue(), err.getvalue()


def test_an_unknown_noun_or_verb_is_answered_with_those_that_are_known(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "jobs")
    assert (status, out) == (2, "") and "invalid choice: 'jobs' (choose from 'dag', 'job'," in err
    status, out, err = run(tmp_path, "job", "kill")
    assert (status, out) == (2, "") and "invalid choice: 'kill' (choose from 'submit', 'status'," in err


@pytest.mark.parametrize("noun", ["ocu", "annex"])
def test_what_is_not_there_is_refused_with_what_to_do_instead(noun: str, tmp_path: Path) -> None:
    for verb in NOUNS[noun].verbs:
        status, _, err = run(tmp_path, noun, verb, "--any", "words")
        assert status == 1 and err.startswith(f"Error while trying to run {noun} {verb}:\nSlotwise ")


def test_quiet_calls_print_failures_and_nothing_else(tmp_path: Path) -> None:
    assert run(tmp_path, "-q", "job", "submit", "none.sub")[2] != ""
    assert run(tmp_path, "-qqq", "job", "submit", "none.sub") == (1, "", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 second"),
        (1, "1 second"),
        (59.4, "59 seconds"),
        (60, "1 minute"),
        (7200, "2 hours"),
        (108_000, "1 day 6 hours"),
        (172_800, "2 days 0 hour"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert time_span(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(256, "256 B"), (1536, "1.500 KB"), (3 << 20, "3.000 MB"), (5 << 40, "5.000 TB")]
)
def test_sizes(amount: int, text: str) -> None:
    assert size(amount) == text


def test_a_held_job_is_described_with_its_reason_and_its_usage() -> None:
    ad = ClassAd(
        {
            "JobStatus": 5, "QDate": 0, "EnteredCurrentStatus": 40, "HoldReason": "no disk", "NumHolds": 2,
            "NumShadowStarts": 3, "NumJobStarts": 1, "MemoryUsage": 5, "RequestMemory": 64,
            "CommittedTime": 30, "RemoteWallClockTime": 60.0, "TransferInStarted": 5, "TransferInFinished": 8,
        }
    )  # fmt: skip
    assert job.sentences(ad, "1.0", 100.0) == [
        "Job 1.0 is currently held.",
        "It has been held for 1 minute.",
        'It was held because "no disk".',
        "It has been held 2 times.",
        "It was submitted 2 minutes ago.",
        "Its last memory usage was 5.000 MB out of 64.000 MB requested.",
        "HTCondor has attempted to start the job 3 times.",
        "The job has started 1 time.",
        "Input file transfer took 3 seconds.",
        "Job has 50.0% goodput for 1 minute of wall clock time.",
    ]


def test_a_job_in_a_state_that_nobody_knows_is_said_to_be_so() -> None:
    assert job.sentences(ClassAd({"JobStatus": 9}), "1", 0.0) == ["Job 1 is in an unknown state (JobStatus = 9)."]


def test_a_busy_daemon_and_waiting_transfers_cost_health() -> None:
    # HTCondor's own test (test_htcondor_cli_sys_status.py) has these points, as whole numbers.
    for busy, points in ((0.33, 100), (0.95, 95), (0.96, 63), (0.97, 31), (0.98, 0)):
        assert int(health.points(ClassAd({"MyType": "Collector", "RecentDaemonCoreDutyCycle": busy}))) == points
    waiting = {"TransferQueueNumWaitingToUpload": 1, "FileTransferMBWaitingToUpload": 500.0}
    schedd = ClassAd({"MyType": "Scheduler", **waiting, "TransferQueueUploadWaitTime": 1000})
    assert health.points(schedd) == pytest.approx(93)
    assert [health.word(points, 1) for points in (100, 60, 30, 0)] == ["Good", "Decent", "Poor", "Bad"]


def test_following_prints_the_table_anew_when_the_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(SUBMIT)
    words = [sys.executable, "-m", "slotwise", "htcondor", "eventlog", "follow", "a.log", "-csv"]
    with subprocess.Popen(words, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline() for _ in range(2)][1] == "7.0,10.0.0.1,,,0,0,0,0\n"
            with log.open("a") as more:
                more.write(EXECUTE)
            assert [process.stdout.readline() for _ in range(2)][1] == "7.0,slot1@a,3/1/26 10:05,,0,0,0,0\n"
        finally:
            process.kill()

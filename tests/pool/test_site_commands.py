"""Commands about machines and daemons of a pool, for people and scripts: who, findhost, fetchlog and others."""

from __future__ import annotations

import json
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool

STATES = ("REMOVED", "HELD", "SUSPENDED", "IDLE", "INPUT", "RUN", "OUTPUT", "DONE")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        made = Pool(Path(directory) / "p", "NUM_CPUS = 4\n")
        made.up()
        try:
            made.until("the slot is advertised", lambda: made.json("status"))
            yield made
        finally:
            made.destroy()


@pytest.fixture
def running(pool: Pool) -> Iterator[str]:
    """The id of a job that runs."""
    (pool.root / "sleeps.sub").write_text("executable = /bin/sleep\narguments = 3000\nlog = sleeps.log\nqueue\n")
    cluster = pool.run("submit", "-terse", "sleeps.sub").stdout.split()[0].partition(".")[0]
    pool.until("the job runs", lambda: pool.run("q", cluster, "-af", "JobStatus").stdout == "2\n")
    yield f"{cluster}.0"
    pool.run("rm", cluster)
    pool.until("the job is gone", lambda: not pool.json("q", cluster))


def test_who_names_the_jobs_of_the_machine(pool: Pool, running: str) -> None:
    title, headings, row = pool.run("who").stdout.strip().splitlines()
    assert title == f"--Startd : {socket.gethostname()} has 1 job(s) running:"
    assert headings.split() == ["OWNER", "CLIENT", "SLOT", "JOB", "RUNTIME", "PID", "JOB_DIR"]
    assert row.split()[3] == running
    (ad,) = pool.json("who")
    assert ad["JobId"] == running and ad["ShownSlot"] == "1_1"
    assert str(Path(f"/proc/{ad['JobPid']}/cwd").readlink()) == ad["JobDir"]
    assert pool.run("who", "-constraint", "Cpus > 100").stdout == ""
    kinds = pool.run("who", "-snapshot", "-af", "MyType", "SlotType").stdout.split("\n")[:-1]
    assert kinds[0].split()[0] == "StartD" and "Machine Partitionable" in kinds, kinds
    assert (
        pool.run("who", "-snapshot", "-long", "-constraint", 'SlotType == "Partitionable"').stdout.count("\nCpus =")
        == 1
    )
    assert pool.run("who", "-snapshot", "-af", "SlotID", "-constraint", "SlotID > 9000").stdout == ""


def test_who_tells_of_daemons(pool: Pool) -> None:
    lines = pool.run("who", "-daemons").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines[5:]}
    assert {"Master", "Collector", "Negotiator", "Schedd", "Startd"} <= set(rows)
    assert rows["Startd"][1:3] == ["yes", str(pool.pid("startd"))]
    (ad,) = pool.json("who", "-quickdaemons")
    assert ad["IsReady"] is True and ad["STARTD_State"] == "Ready" and ad["SCHEDD_PID"] == pool.pid("schedd")
    assert pool.run("who", "-wait-for-ready:60", "IsReady && NumAlive >= 5", "-af", "SCHEDD").stdout == "Alive\n"
    late = pool.run("who", "-wait-for-ready:0", "NumAlive > 1000", check=False)
    assert late.returncode == 1


def test_jobs_are_watched_by_their_logs(pool: Pool, running: str) -> None:
    cluster = running.partition(".")[0]
    (row,) = pool.until("the log tells of the start", lambda: _rows(pool, cluster))
    assert row == {"Name": f"ID: {cluster}", "Clusters": [int(cluster)], "Total": 1} | dict.fromkeys(STATES, 0) | {
        "RUN": 1
    }
    ended = pool.run("watch-q", "-clusters", cluster, "-exit", "any,active,3", check=False, COLUMNS="90")
    assert ended.returncode == 3 and "Total: 1 jobs; 1 running" in ended.stdout
    mine = pool.run("watch-q", "-exit", "none,held,4", check=False)
    assert mine.returncode == 4 and running in mine.stdout


def _rows(pool: Pool, cluster: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(pool.run("watch-q", "-clusters", cluster, "-json").stdout)
    return rows if rows and rows[0]["RUN"] else []


def test_administrators_fetch_logs_by_name(pool: Pool) -> None:
    log = (pool.home.log / "StartLog").read_text()
    assert pool.run("fetchlog", "-", "STARTD").stdout.startswith(log)
    assert pool.run("fetchlog", "-startd", socket.gethostname(), "STARTD").stdout.startswith(log)
    for name, why in (("/etc/passwd", "name"), ("JOB_QUEUE", "no log file by that name"), ("STARTD.no", "unable")):
        refused = pool.run("fetchlog", "-", name, check=False)
        assert refused.stdout == "" and refused.returncode and why in refused.stderr
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "WRITE", "--file", "bob.token")
    bob: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "bob.token")}
    denied = pool.run("fetchlog", "-", "STARTD", check=False, **bob)
    assert (denied.stdout, denied.returncode) == ("", 1) and "ADMINISTRATOR" in denied.stderr


def test_top_shows_how_busy_a_daemon_is(pool: Pool) -> None:
    pool.until("the schedd has told of itself", lambda: "MonitorSelfAge" in pool.json("status", "-schedd")[0])
    shown = pool.run("top", "-delay", "1")
    assert shown.stdout.startswith("Schedd ") and "Uptime: " in shown.stdout and "Duty Cycle" in shown.stdout
    assert pool.run("top", "-collector", "-delay", "1").stdout.startswith("Collector ")
    assert [line for line in shown.stdout.splitlines() if line.endswith(" Command_NEGOTIATE")], "of the daemon itself"
    asked = {row["Item"]: row for row in pool.json("top", "-collector", "-delay", "1")}
    (own,) = [row for name, row in asked.items() if name.endswith("Daemon_Statistics")]
    assert (own["InstCt"], own["TotalCt"]) == (1, 3) and 0 < own["InstRt"] < 10
    assert asked["Command_QUERY_ANY_ADS"]["InstCt"] >= 1
    assert pool.run("condor_top", "-n", "nobody", check=False).returncode == 1
    (pool.root / "one.ad").write_text("MyCurrentTime = 100\nWork = 5\nWorkRuntime = 2.0\n")
    (pool.root / "two.ad").write_text("MyCurrentTime = 110\nWork = 9\nWorkRuntime = 4.0\n")
    (row,) = pool.json("top", "one.ad", "two.ad")
    assert (row["Item"], row["InstCt"], row["InstRt"], row["InstAvg"], row["InstRate"]) == ("Work", 4, 2.0, 0.5, 0.4)
    assert pool.run("top", "one.ad", "one.ad", check=False).returncode == 2


def test_findhost_finds_slots_that_can_be_had(pool: Pool) -> None:
    name = pool.until("the slot is free", lambda: pool.run("status", "-af", "Name").stdout).split()[0]
    assert pool.run("findhost", "-r", "Memory").stdout == f"{name}\n"
    short = pool.run("findhost", "-n", "3", check=False)
    assert (short.stdout, short.returncode) == (f"{name}\n", 2)
    assert json.loads(pool.run("findhost", "-json").stdout)[0]["Preempts"] == "nothing"
    none = pool.run("findhost", "-c", "Cpus > 1000", check=False)
    assert (none.stdout, none.returncode) == ("", 1)
    assert pool.run("findhost", "-n", "0", check=False).returncode == 2


def test_files_of_evicted_runs_are_their_owners(pool: Pool) -> None:
    (pool.root / "kept.sh").write_text("#!/bin/sh\nmkdir -p d\necho one > state; echo two > d/more\nexec sleep 3000\n")
    (pool.root / "kept.sub").write_text(
        "executable = kept.sh\nshould_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT_OR_EVICT\n"
        "transfer_output_files = state, d\nrequirements = true\nqueue\n"
    )
    job = f"{pool.run('submit', '-terse', 'kept.sub').stdout.partition('.')[0]}.0"
    pool.until("the job runs", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "2\n")
    never = pool.run("evicted-files", job, check=False)
    assert (never.stdout, never.returncode) == ("No directory; job was never evicted.\n", 1)
    assert pool.run("condor_evicted_files", job, check=False).returncode == 2
    pool.until("it has written", lambda: "two" in pool.run("tail", job, "d/more", check=False).stdout)
    pool.run("hold", job)
    (row,) = pool.until("the files are kept", lambda: _kept(pool, job))
    assert row["JobId"] == job and {"state", "d/more"} <= set(row["Files"])
    assert pool.run("evicted-files", job).stdout == f"{row['Directory']}\n"
    assert "\td\n" in pool.run("evicted-files", "list", job).stdout
    assert pool.run("evicted-files", "get", job).stdout == f"Copied to '{job}'.\n"
    assert (pool.root / job / "state").read_text() == "one\n"
    assert (pool.root / job / "d" / "more").read_text() == "two\n"
    again = pool.run("evicted-files", "get", job, check=False)
    assert again.returncode == 1 and "not modifying" in again.stdout
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "WRITE", "--file", "bob.token")
    bob: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "bob.token")}
    denied = pool.run("evicted-files", "list", job, check=False, **bob)
    assert (denied.stdout, denied.returncode) == ("", 1)
    pool.run("rm", job)
    assert pool.run("evicted-files", "no", "1.0", check=False).returncode == 2
    assert pool.run("evicted-files", "1", check=False).returncode == 2


def _kept(pool: Pool, job: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(pool.run("evicted-files", "-json", job).stdout)
    return rows if rows[0]["Directory"] else []


def test_batch_scripts_are_submitted(pool: Pool) -> None:
    script = pool.root / "task.pbs"
    script.write_text(
        "#!/bin/sh\n#PBS -N tasks -j oe\n#$ -t 1-5:2\n#PBS -l mem=32mb,walltime=1:00:00\n"
        'echo "task $SGE_TASK_ID of $PBS_JOBNAME: $1 $WORD"\n'
    )
    script.chmod(0o755)
    shown = pool.run("qsub", "--test", "task.pbs").stdout
    assert shown.endswith("queue task in (1, 3, 5)\n") and "request_memory = 32MB\n" in shown
    assert pool.run("q", "-totals").stdout.count("tasks") == 0
    said = pool.run("qsub", "-v", "WORD=costs $5 it's", "task.pbs", "an argument")
    cluster = said.stdout.split()[2]
    assert said.stdout == f'Your job {cluster} ("tasks") has been submitted\n' and "walltime" in said.stderr
    pool.until("the tasks are done", lambda: len(list(pool.root.glob(f"tasks.o{cluster}.*"))) == 3)
    pool.until("all left the queue", lambda: not pool.json("q", cluster))
    assert (pool.root / f"tasks.o{cluster}.3").read_text() == "task 3 of tasks: an argument costs $5 it's\n"
    plain = pool.root / "plain.sh"
    plain.write_text("echo by $0\n")
    cluster = pool.run("qsub", "-o", "plain.out", "plain.sh").stdout.split()[2]
    pool.until("it left the queue", lambda: not pool.json("q", cluster))
    assert (pool.root / "plain.out").read_text() == "by plain.sh\n"
    assert pool.run("qsub", "nothing.sh", check=False).returncode == 2
    words: dict[str, Any] = {"env": pool.env, "cwd": pool.root, "input": "echo $0\n", "text": True}
    piped = subprocess.run([*pool.command, "qsub", "-h"], capture_output=True, check=True, **words)
    assert '("STDIN") has been submitted' in piped.stdout
    (kept,) = pool.root.glob("STDIN_qsub.*")
    assert kept.read_text() == "echo $0\n", "jobs may need it until the last of them starts"
    assert pool.run("condor_qsub", "-hold_jid", "1", "plain.sh", check=False).returncode == 1


def test_information_for_who_helps(pool: Pool, running: str) -> None:
    pool.run("gather-info")
    text = (pool.root / "condor-profile.txt").read_text()
    for word in ("# uname -a #", "# Condor Config Variables #", "NUM_CPUS = 4", "SchedLog", "$CondorVersion: "):
        assert word in text
    assert (pool.root / "condor-profile.txt").stat().st_mode & 0o077 == 0
    pool.run("gather-info", "-jobid", running, "-scratch", str(pool.root))
    (archive,) = pool.root.glob(f"cgi-*-jid{running}-*.tar.gz")
    assert archive.stat().st_mode & 0o077 == 0 and not list(pool.root.glob("cgi-[0-9]*"))
    with tarfile.open(archive) as opened:
        texts = {
            "/".join(name.split("/")[1:]): found.read().decode()
            for name in opened.getnames()
            if (found := opened.extractfile(name)) is not None
        }
    assert f"ClusterId = {running.partition('.')[0]}\n" in texts[f"{running}/job_ad"]
    assert "Job executing on host" in texts[f"{running}/job_userlog_lines"]
    assert {"condor-profile.txt", "SchedLog", f"{running}/job_q", f"{running}/job_ad_analysis"} <= set(texts)
    secrets = [path.read_bytes() for path in pool.home.secrets.rglob("*") if path.is_file()]
    assert not any(secret.decode(errors="replace").strip() in text for secret in secrets for text in texts.values())
    assert pool.run("gather-info", "-jobid", "1", check=False).returncode == 2


def test_the_report_has_what_ended_on_the_machines(pool: Pool) -> None:
    (pool.root / "short.sub").write_text("executable = /bin/true\nqueue 2\n")
    cluster = pool.run("submit", "-terse", "short.sub").stdout.partition(".")[0]
    pool.until("the jobs are done", lambda: not pool.json("q", cluster))
    user = pool.json("history", cluster)[0]["User"]
    pool.until("the machine has recorded them", lambda: _reported(pool, user)["Starts"] >= 2)
    row = _reported(pool, user)
    assert row["Restarted"] == 0 and row["Short"] == row["Starts"]
    text = pool.run("pool-job-report", "-days", "0").stdout
    assert "Got data from 1 hosts" in text and (pool.root / "JobReport").read_text() == text
    assert (pool.root / "JobReport.csv").read_text().count("\n") == 2
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "READ", "--file", "bob.token")
    bob: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "bob.token")}
    refused = pool.run("pool-job-report", "-json", check=False, **bob)
    assert (refused.stdout, refused.returncode) == ("[]\n", 1) and "ADMINISTRATOR" in refused.stderr


def _reported(pool: Pool, user: str) -> dict[str, Any]:
    rows = json.loads(pool.run("pool-job-report", "-json", "-days", "0").stdout)
    return next((row for row in rows if row["User"] == user), {"Starts": 0})

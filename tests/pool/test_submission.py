"""Submitting, spooling and what comes back, as people and scripts do it against a real pool."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S


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


SPOOLED = """executable = prog
arguments = $(Process)
transfer_input_files = in.txt, d
output = out/o.$(Process)
error = e.$(Process)
log = jobs.log
transfer_output_remaps = "result.1=moved/r1"
queue 2
"""


def test_spooled_jobs_need_nothing_of_where_they_were_submitted(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "prog").write_text(
        "#!/bin/sh\ncat in.txt d/x; echo trouble >&2; echo $1 > result.$1; echo changed >> in.txt\n"
    )
    (tmp_path / "prog").chmod(0o755)
    (tmp_path / "in.txt").write_text("input\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("below\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "s.sub").write_text(SPOOLED)
    first = pool.run("submit", "-spool", "-terse", "s.sub", cwd=tmp_path).stdout.split()[0]
    cluster = first.partition(".")[0]
    for name in ("prog", "in.txt", "d/x"):
        (tmp_path / name).unlink()
    done = ("-const", f"ClusterId == {cluster} && JobStatus == 4", "-af", "ProcId")
    pool.until("both jobs are completed", lambda: pool.run("q", *done).stdout.split() == ["0", "1"])
    assert not (tmp_path / "e.0").exists(), "results wait until they are fetched"
    fetched = pool.run("transfer-data", cluster).stdout
    assert f"of job {cluster}.0 to {tmp_path}" in fetched
    assert (tmp_path / "out" / "o.0").read_text() == "input\nbelow\n"
    assert (tmp_path / "e.1").read_text() == "trouble\n"
    assert (tmp_path / "result.0").read_text() == "0\n"
    assert (tmp_path / "moved" / "r1").read_text() == "1\n"
    log = (tmp_path / "jobs.log").read_text()
    for proc in range(2):
        assert f"000 ({int(cluster):03}.{proc:03}.000)" in log and f"005 ({int(cluster):03}.{proc:03}.000)" in log
    assert pool.run("wait", "-wait", "1", str(tmp_path / "jobs.log")).stdout == "All jobs done.\n"
    assert pool.run("q", cluster, "-af", "ProcId").stdout == "", "they leave the queue when all is fetched"
    again = pool.run("transfer-data", cluster, check=False)
    assert again.returncode == 1 and f"no job {cluster}" in again.stderr


def test_the_description_of_another_does_not_say_where_files_go(pool: Pool, tmp_path: Path) -> None:
    token = tmp_path / "bob.token"
    pool.run("token", "create", "--identity", "bob@here", "--scope", "WRITE", "--file", str(token))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (tmp_path / "s.sub").write_text(
        f"executable = /bin/sh\narguments = \"-c 'echo evil > evil; echo plain > plain'\"\n"
        f'transfer_output_remaps = "evil={closed}/evil"\ninitialdir = {closed}\n'
        "should_transfer_files = yes\ntransfer_executable = false\nqueue\n"
    )
    words = ("submit", "-spool", "-terse", "s.sub")
    job = pool.run(*words, cwd=tmp_path, SLOTWISE_TOKEN_FILE=str(token)).stdout.split()[0]
    pool.until("it is completed", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "4\n")
    everything = pool.run("transfer-data", "-all", check=False)
    assert everything.returncode == 1 and "No jobs with spooled files" in everything.stderr
    refused = pool.run("transfer-data", job, check=False)
    assert refused.returncode == 1 and f"job {job} belongs to bob" in refused.stderr and "-directory" in refused.stderr
    assert list(closed.iterdir()) == []
    pool.run("transfer-data", job, "-directory", str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "evil").read_text() == "evil\n" and (tmp_path / "mine" / "plain").exists()
    assert list(closed.iterdir()) == []


def test_directories_of_spooled_jobs_come_home_with_their_rights(pool: Pool, tmp_path: Path) -> None:
    script = "#!/bin/sh\nmkdir -p own/empty; chmod 700 own; echo 1 > own/f; echo 2 > ..dots\n"
    (tmp_path / "prog").write_text(script)
    lines = "executable = prog\nlog = log\ntransfer_output_files = own, ..dots\nshould_transfer_files = yes\nqueue\n"
    (tmp_path / "s.sub").write_text(lines)
    cluster = pool.run("submit", "-spool", "-terse", "s.sub", cwd=tmp_path).stdout.split()[0].partition(".")[0]
    done = ("-const", f"ClusterId == {cluster} && JobStatus == 4", "-af", "ProcId")
    pool.until("it is completed", lambda: pool.run("q", *done).stdout.split() == ["0"])
    pool.run("transfer-data", cluster)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "own" / "f").read_text() == "1\n"
    assert (tmp_path / "own" / "empty").is_dir()
    assert (tmp_path / "..dots").read_text() == "2\n"


def test_what_cannot_be_spooled_is_not_queued(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "s.sub").write_text("executable = /bin/true\ntransfer_input_files = nowhere\nqueue\n")
    before = len(pool.json("q"))
    refused = pool.run("submit", "-spool", "s.sub", cwd=tmp_path, check=False)
    assert refused.returncode == 1 and "nowhere" in refused.stderr
    assert len(pool.json("q")) == before
    assert pool.run("transfer-data", check=False).returncode == 1


def test_a_completed_job_stays_as_long_as_it_is_told_to(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "s.sub").write_text("executable = /bin/true\nleave_in_queue = JobStatus == 4\nqueue\n")
    job = pool.run("submit", "-terse", "s.sub", cwd=tmp_path).stdout.split()[0]
    pool.until("it is completed", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "4\n")
    pool.run("rm", job)
    assert pool.run("q", job, "-af", "JobStatus").stdout == ""


def test_submit_without_queueing(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "s.sub").write_text("executable = /bin/sleep\narguments = 1\nqueue 3\n")
    before = len(pool.json("q"))
    said = pool.run("submit", "-dry-run", "ads", "s.sub", cwd=tmp_path).stdout
    assert said.splitlines()[-1] == "3 job(s) dry-run to cluster 1."
    (tmp_path / "set.sub").write_text('executable = /bin/true\njobset.name = s1\njobset.Color = "red"\nqueue 2\n')
    said = pool.run("submit", "-dry-run:jobset", "-", "set.sub", cwd=tmp_path).stdout
    assert '----- jobset -----\nColor = "red"\nJobSetName = "s1"\n-----\n' in said
    refused = pool.run("submit", "-dry-run:nothing", "-", "set.sub", cwd=tmp_path, check=False)
    assert refused.returncode and "unknown option nothing for -dry-run:<opts>" in refused.stderr
    assert (tmp_path / "ads").read_text().count("ProcId = ") == 3
    assert pool.run("submit", "-dump", "-", "s.sub", cwd=tmp_path).stdout.count("ProcId = ") == 3
    for words, told in (
        (("-maxjobs", "2"), "-maxjobs allows 2"),
        (("-force-mpi-universe",), "MPI"),
        (("-nonsense",), "-nonsense"),
    ):
        refused = pool.run("submit", *words, "s.sub", cwd=tmp_path, check=False)
        assert refused.returncode and told in refused.stderr and not refused.stdout
    assert len(pool.json("q")) == before
    assert "vanilla" in pool.run("submit", "-capabilities").stdout
    (tmp_path / "help.txt").write_text("ask\nus\n")
    added: dict[str, Any] = {
        "_CONDOR_EXTENDED_SUBMIT_COMMANDS": "LongJob = true\naccounting_group_user = error",
        "_CONDOR_EXTENDED_SUBMIT_HELPFILE": str(tmp_path / "help.txt"),
    }
    told = pool.run("submit", "-capabilities", **added).stdout
    assert "\taccounting_group_user  value is forbidden\n\tLongJob                value is boolean true/false\n" in told
    assert told.endswith(" Has Extended help:\n\task\nus\n")
    called = pool.run("condor_submit", "-capabilities", **added).stdout
    assert called.partition("\n")[2] == " Has Late Materialization enabled\n Has Ext" + told.partition(" Has Ext")[2]


def test_ads_are_shown_of_a_description_from_standard_input_where_it_is_named(pool: Pool, tmp_path: Path) -> None:
    for words, shown in (((), 0), (("-",), 1)):
        said = subprocess.run(
            [*pool.command, "submit", *words],
            env=pool.env, cwd=tmp_path, input="executable = /bin/true\nhold = true\nqueue\n",
            capture_output=True, text=True, timeout=2 * LIMIT_S, check=True,
        ).stdout  # fmt: skip
        assert said.count("** Proc ") == shown
        pool.run("rm", said.split()[-1].rstrip("."))


def test_results_of_acting_for_programs(pool: Pool, tmp_path: Path) -> None:
    words = ("executable=/bin/true", "hold=true", "-terse", "-queue", "2")
    cluster = pool.run("submit", *words, cwd=tmp_path).stdout.partition(".")[0]
    pool.run("hold", f"{cluster}.0")
    said = pool.run("hold", f"{cluster}.0", "-long", check=False)
    assert said.returncode == 1 and f"job_{cluster}_0 = 4" in said.stdout and "result_total_4 = 1" in said.stdout
    assert "JobAction = 3" in pool.run("rm", "-held", cluster, "-long").stdout
    assert pool.run("rm", cluster, "-totals", check=False).stdout.startswith("0 Succeeded, 0 Failed, 1 Not Found")


def test_factories_are_listed(pool: Pool, tmp_path: Path) -> None:
    words = ("executable=/bin/true", "hold=true", "max_materialize=2", "-terse", "-queue", "5")
    cluster = pool.run("submit", *words, cwd=tmp_path).stdout.partition(".")[0]

    def row() -> str:
        (found,) = [
            line for line in pool.run("q", "-factory").stdout.splitlines() if line.split()[:1] == [f"{cluster}."]
        ]
        return found

    pool.until("two jobs are made", lambda: row().split()[4:10] == ["2", "2", "0", "0", "2", "2"] and "Norm" in row())
    late = ("executable=/bin/true", "max_materialize=2", "-queue", "5")
    refused = pool.run("submit", "-spool", *late, cwd=tmp_path, check=False)
    assert refused.returncode == 1 and "max_materialize" in refused.stderr
    pool.run("rm", cluster)
    made = pool.run("submit", "-factory", *words[:2], "-terse", "-queue", "3", cwd=tmp_path).stdout.partition(".")[0]
    assert f"{made}." in pool.run("q", "-factory").stdout
    pool.run("rm", made)


def test_knobs_of_q(pool: Pool) -> None:
    batches = pool.run("q", "-const", "false").stdout
    jobs = pool.run("q", "-const", "false", _CONDOR_CONDOR_Q_DASH_BATCH_IS_DEFAULT="false").stdout
    assert "BATCH_NAME" in batches and "RUN_TIME" in jobs


def test_queue_statements_that_condor_submit_does_not_take_together(pool: Pool, tmp_path: Path) -> None:
    """HTCondor 25.14.1 says so of each of these."""
    (tmp_path / "s.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    (tmp_path / "bare.sub").write_text("executable = /bin/true\nhold = true\n")

    def refused(*words: str) -> str:
        done = pool.run("condor_submit", *words, cwd=tmp_path, check=False)
        assert done.returncode == 1, done.stdout
        return done.stderr

    both = "-queue argument conflicts with queue statement in submit file"
    assert both in refused("s.sub", "-queue", "2") and both in refused("-a", "queue 2", "s.sub")
    once = "only one -queue command allowed"
    assert once in refused("bare.sub", "-queue", "1", "-queue", "2")
    assert once in refused("bare.sub", "-a", "queue 1", "-a", "queue 2")


def test_statements_of_the_command_line(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "s.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    said = pool.run(
        "submit", "-a", "queue 2", "-append", "priority = 7", "-batch", "ours", "s.sub", cwd=tmp_path
    ).stdout
    assert said.startswith("Submitting job(s)..\n2 job(s) submitted to cluster ")
    cluster = said.split()[-1].rstrip(".")
    assert pool.run("q", cluster, "-af", "JobPrio", "JobBatchName").stdout == "7 ours\n" * 2
    pool.run("rm", cluster)
    said = pool.run("submit", "executable=/bin/true", "hold=true", "-queue", "x", "in", "(a", "b)", cwd=tmp_path).stdout
    assert "2 job(s)" in said
    pool.run("rm", said.split()[-1].rstrip("."))


def test_why_a_job_does_not_run_on_some_machine(pool: Pool, tmp_path: Path) -> None:
    words = ("executable=/bin/true", "requirements=Nothing", "-terse", "-queue", "1")
    job = pool.run("submit", *words, cwd=tmp_path).stdout.split()[0]
    (slot,) = pool.json("status")
    for more in ((), ("-machine", slot["Machine"]), ("-mconstraint", "Cpus > 1")):
        said = pool.run("q", "-better-analyze", job, *more).stdout
        assert f"Job {job} has not yet been considered" in said or f"Job {job} is idle" in said
        assert "Of 1 slots,\n    1 slots rejected by the job's requirements" in said
        assert any(line.split()[1:] == ["0", "Nothing"] for line in said.splitlines())
        assert "No slot satisfies" in said and "Be advised" in said
    (tmp_path / "slots").write_text(pool.run("status", "-long").stdout)
    (tmp_path / "jobs").write_text(pool.run("q", job, "-long").stdout)
    files = ("-slotads", "slots", "-jobads", "jobs")
    for which in ("-better-analyze", "-better-analyze:priority"):
        assert f"{job}:  Run analysis" in pool.run("q", which, job, *files, cwd=tmp_path).stdout
    refused = pool.run("q", "-better-analyze", job, "-machine", "nowhere", check=False)
    assert refused.returncode and refused.stderr
    reverse = pool.run("q", job, "-better-analyze", "-reverse", "-machine", slot["Machine"]).stdout
    assert "    0 rejected by the slot's requirements\n    1 reject the slot" in reverse
    assert job in pool.run("q", "-unmatchable").stdout
    assert job in pool.run("q", "-analyze:summary").stdout
    pool.run("rm", job)


def test_names_of_files_need_not_be_utf8(pool: Pool, tmp_path: Path) -> None:
    latin, odd = os.fsdecode(b"caf\xe9.txt"), os.fsdecode(b"b\xff")
    (tmp_path / "prog").write_text(
        '#!/bin/sh\nfor f in in/*; do cat "$f"; done > "$(printf \'caf\\351.txt\')"\n'
        "mkdir tree; cp caf* \"tree/$(printf 'b\\377')\"\n"
    )
    (tmp_path / "prog").chmod(0o755)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / latin).write_text("coffee\n")
    (tmp_path / "s.sub").write_text(
        "executable = prog\ntransfer_input_files = in\nlog = l\nshould_transfer_files = yes\n"
        "transfer_output_files = tree\nqueue\n"
    )
    pool.run("submit", "s.sub", cwd=tmp_path)
    pool.run("wait", "l", "-wait", f"{LIMIT_S:g}", cwd=tmp_path)
    assert (tmp_path / "tree" / odd).read_text() == "coffee\n"
    (tmp_path / "all.sub").write_text(
        "executable = prog\ntransfer_input_files = in\nlog = l2\nshould_transfer_files = yes\nqueue\n"
    )
    pool.run("submit", "all.sub", cwd=tmp_path)
    pool.run("wait", "l2", "-wait", f"{LIMIT_S:g}", cwd=tmp_path)
    assert (tmp_path / latin).read_text() == "coffee\n"


def test_texts_that_are_no_utf8_are_refused_with_a_reason(pool: Pool) -> None:
    refused = pool.run("hold", "-reason", os.fsdecode(b"bad \xff"), "1", check=False)
    assert refused.returncode == 1
    assert "is not UTF-8" in refused.stderr


def test_submissions_outlive_the_schedd_and_queue_nothing_twice(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "s.sub").write_text("executable = /bin/true\nhold = true\nbatch_name = once\nqueue 2\n")

    def submits() -> list[str]:
        return [pool.run("submit", "-terse", "s.sub", cwd=tmp_path).stdout for _ in range(12)]

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(submits), threads.submit(submits)]
        for _ in range(2):  # a third death in a row would make the master wait for long
            pool.kill("schedd")
            pool.until("another schedd answers", lambda: pool.answers("schedd"))
    told = sorted(ids.split()[0] for one in both for ids in one.result())
    queued = pool.run("q", "-const", 'JobBatchName == "once"', "-af:j", "ProcId").stdout.splitlines()
    assert sorted(line.split()[0] for line in queued if line.endswith(" 0")) == told
    assert len(queued) == 48
    pool.run("rm", "-const", 'JobBatchName == "once"')


def test_descriptions_need_not_be_utf8(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"in\xfc")).write_text("input\n")
    (tmp_path / "s.sub").write_bytes(
        b"# Pr\xfcfung\nexecutable = /bin/sh\narguments = \"-c 'cat in\xfc; echo $0 $X' b\xf6se\"\nlog = l\n"
        b'environment = "X=\xdf"\ntransfer_input_files = in\xfc\noutput = $(x).out\nqueue x in (\xe4 \xc3\xa4)\n'
    )
    job = pool.run("submit", "-terse", "s.sub", cwd=tmp_path).stdout.split()[0]
    pool.run("wait", "l", "-wait", f"{LIMIT_S:g}", cwd=tmp_path)
    for name in (b"\xe4.out", b"\xc3\xa4.out"):
        assert (tmp_path / os.fsdecode(name)).read_bytes() == b"input\nb\xf6se \xdf\n"
    shown = subprocess.run(
        [sys.executable, "-m", "slotwise", "history", job, "-long"], env=pool.env, capture_output=True, check=True
    )
    assert b'Out = "\xe4.out"' in shown.stdout
    (tmp_path / "bad.sub").write_bytes(b"executable = /bin/true\ninput = no\xfc\nqueue\n")
    refused = pool.run("submit", "bad.sub", cwd=tmp_path, check=False)
    assert refused.returncode == 1 and "bad.sub:2: Input file" in refused.stderr and "does not exist" in refused.stderr


def test_a_job_is_not_run_outside_its_container(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "j.sub").write_text("executable = /bin/true\nlog = l\nhold = true\nqueue\n")
    job = pool.run("submit", "-terse", "j.sub", cwd=tmp_path).stdout.split()[0]
    pool.run("qedit", job, "SingularityImage", '"x.sif"')
    pool.run("release", job)
    reason = ("q", job, "-af", "HoldReason", "HoldReasonCode", "NumJobStarts")
    pool.until("it is held", lambda: "container x.sif" in pool.run(*reason).stdout)
    assert pool.run(*reason).stdout.split()[-2:] == ["6", "0"]
    pool.run("rm", job)


def test_output_that_is_not_transferred_leaves_the_file_as_it_is(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("OLD\n")
    (tmp_path / "j.sub").write_text(
        "executable = /bin/sh\narguments = \"-c 'echo NEW; echo err >&2; echo x > made'\"\nlog = l\n"
        "output = keep.txt\ntransfer_output = false\nerror = e\nshould_transfer_files = yes\nqueue\n"
    )
    said = pool.run("submit", "j.sub", cwd=tmp_path)
    assert "WARNING" not in said.stderr
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=tmp_path)
    found = {path.name: path.read_text() for path in tmp_path.iterdir() if path.name in ("keep.txt", "e", "made")}
    assert found == {"keep.txt": "OLD\n", "e": "err\n", "made": "x\n"}


def test_files_that_are_to_be_encrypted_stay_on_this_machine_or_go_over_tls(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("secret\n")
    (tmp_path / "j.sub").write_text(
        "executable = /bin/cat\narguments = in.txt\nlog = l\noutput = o\ntransfer_input_files = in.txt\n"
        "encrypt_input_files = in.txt\nencrypt_output_files = o\ndont_encrypt_input_files = other\nqueue\n"
    )
    pool.run("submit", "j.sub", cwd=tmp_path)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=tmp_path)
    assert (tmp_path / "o").read_text() == "secret\n"


@pytest.mark.parametrize("spooled", [[], ["-spool"]])
def test_a_proxy_goes_with_the_job(spooled: list[str], pool: Pool, tmp_path: Path) -> None:
    proxy = Path(__file__).parents[1] / "unit" / "proxy.pem"
    (tmp_path / "user.pem").write_bytes(proxy.read_bytes())
    (tmp_path / "user.pem").chmod(0o600)
    script = "echo $X509_USER_PROXY; stat -c %a $X509_USER_PROXY; cat $X509_USER_PROXY"
    (tmp_path / "j.sub").write_text(
        f"executable = /bin/sh\narguments = \"-c '{script}'\"\nlog = l\noutput = o\nerror = e\n"
        "x509userproxy = user.pem\nshould_transfer_files = yes\nleave_in_queue = true\nqueue\n"
    )
    said = pool.run("submit", *spooled, "-terse", "j.sub", cwd=tmp_path)
    assert "WARNING" not in said.stderr
    job = said.stdout.split()[0]
    asked = ("q", job, "-af", "JobStatus", "x509UserProxyExpiration", "x509UserProxyEmail", "x509UserProxySubject")
    pool.until("it is completed", lambda: pool.run(*asked).stdout.startswith("4 "))
    shown = pool.run(*asked).stdout
    assert shown.startswith("4 3436957850 ann@example.org /DC=org/DC=test/OU=People/CN=Ann Example 12")
    if spooled:
        pool.run("transfer-data", job)
    path, mode, content = (tmp_path / "o").read_text().split("\n", 2)
    assert path.endswith("/scratch/user.pem") and mode == "600" and content.encode() == proxy.read_bytes()
    pool.run("rm", job)
    (tmp_path / "k.sub").write_text('executable = /bin/true\n+x509UserProxySubject = "/CN=Somebody"\nqueue\n')
    assert "read from the proxy" in pool.run("submit", "k.sub", cwd=tmp_path, check=False).stderr


def test_a_renewed_proxy_reaches_the_running_job(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    """What the job has put in the proxy's place is not followed, and the proxy does not come back as a result."""
    proxy = (Path(__file__).parents[1] / "unit" / "proxy.pem").read_bytes()
    old = proxy.replace(b"-----BEGIN", b"OLD\n-----BEGIN", 1)
    pool = make_pool("NUM_CPUS = 1\nSHADOW_CHECKPROXY_INTERVAL = 1\n")
    pool.up()
    (tmp_path / "user.pem").write_bytes(old)
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\ncat $X509_USER_PROXY > victim\nln -sf victim $X509_USER_PROXY\ntouch ready\n"
        "until ! grep -q OLD $X509_USER_PROXY; do sleep 0.1; done\n"
        "stat -c '%F %a' $X509_USER_PROXY; head -1 victim; cat $X509_USER_PROXY\n"
    )
    (tmp_path / "j.sub").write_text(
        "executable = job.sh\nlog = l\noutput = o\nerror = e\nx509userproxy = user.pem\nshould_transfer_files = yes\n"
        "leave_in_queue = true\nqueue\n"
    )
    job = pool.run("submit", "-terse", "j.sub", cwd=tmp_path).stdout.split()[0]
    pool.until("it executes", lambda: "001 (" in (tmp_path / "l").read_text())
    assert pool.run("q", job, "-af", "x509UserProxyEmail").stdout == "ann@example.org\n"
    (tmp_path / "fresh.pem").write_bytes(proxy)
    (tmp_path / "fresh.pem").rename(tmp_path / "user.pem")
    pool.until("it is completed", lambda: pool.run("q", job, "-af", "JobStatus").stdout == "4\n")
    kind, line, content = (tmp_path / "o").read_text().split("\n", 2)
    assert (kind, line, content.encode()) == ("regular file 600", "OLD", proxy)
    assert (tmp_path / "user.pem").read_bytes() == proxy
    sent = f"{job}: sent the renewed proxy"
    pool.until("that is told", lambda: sent in (pool.home.log / "SchedLog").read_text())


def test_submit_warns_of_what_no_slot_can_meet_and_queues_it(pool: Pool) -> None:
    description = pool.root / "large.sub"

    def submit(statement: str, command: str = "submit") -> str:
        description.write_text(f"executable = /bin/true\n{statement}\nhold = true\nqueue\n")
        done = pool.run(command, str(description))
        assert "1 job(s) submitted" in done.stdout
        return done.stderr

    large = submit("request_cpus = 64")
    assert "no slot of the pool has 64 cores (request_cpus); the largest has 4; `slotwise analyze " in large
    assert "request_memory = lots has no value" in submit("request_memory = lots")
    assert "`$(sample)` is not defined" in submit("arguments = $(sample)")
    assert "mkdir -p" in submit("log = nodir/log")
    assert submit("request_cpus = 2\nrequest_memory = 10M") == ""
    assert submit("request_cpus = 64\narguments = $(sample)\nlog = nodir/log", "condor_submit") == ""
    pool.run("rm", "-constraint", "JobStatus == 5")


def test_submit_waits_and_tells_by_its_status_how_jobs_ended(pool: Pool) -> None:
    description = pool.root / "ends.sub"
    description.write_text(
        "executable = /bin/sh\narguments = \"-c 'exit $(code)'\"\ntransfer_executable = false\nrequest_memory = 10M\n"
        "request_disk = 1M\nqueue code in (0, 4)\n"
    )
    well = pool.run("submit", "-wait", str(description), "-queue", "code in (0)")
    assert "1 job(s) ended, none of them with a failure." in well.stdout
    ill = pool.run("submit", "-wait", str(description), check=False)
    assert ill.returncode == 3 and ".1 exited with 4\n" in ill.stderr and "2 job(s) ended, 1 of them" in ill.stdout
    held = pool.run("submit", "-wait", str(description), "-append", "hold = true", check=False)
    assert held.returncode == 1 and "2 of the jobs are held" in held.stderr
    pool.run("rm", "-constraint", "JobStatus == 5")
    assert pool.run("condor_submit", "-wait", str(description), check=False).returncode == 1

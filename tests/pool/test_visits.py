"""InteractiveSessions to running jobs: `tail`, `ssh-to-job` and `submit -interactive` against a real pool."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S
from tests.support.xvfb import COOKIE, running_xvfb

_JOB = """
executable = /bin/sh
arguments = "-c 'mkdir d; echo inner > d/x; ln -s /etc/passwd link; echo out; echo err >&2; sleep 300'"
transfer_executable = false
output = out
error = err
environment = "COLOUR=blue"
should_transfer_files = yes
request_memory = 16M
queue
"""
#: What sftp talks to beside the job, and scp since it speaks the same.
_SFTP_SERVER = "/usr/lib/openssh/sftp-server"
#: One pool has jobs in process namespaces of their own, which visitors must join.
_CONFIGS = {"plain": "", "namespaces": 'USE_PID_NAMESPACES = True\nMOUNT_UNDER_SCRATCH = "/tmp"\n'}


@pytest.fixture(scope="module", params=list(_CONFIGS))
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    import tempfile

    if request.param != "plain":
        host.need(host.process_namespaces)
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        made = Pool(Path(directory) / "p", "NUM_CPUS = 6\n" + _CONFIGS[request.param])
        (made.root / "job.sub").write_text(_JOB)
        made.up()
        try:
            yield made
        finally:
            made.destroy()


@pytest.fixture(scope="module")
def job(pool: Pool) -> str:
    """A job that runs."""
    named = pool.run("submit", "-terse", "job.sub").stdout.split()[0]
    pool.until("the job printed", lambda: "out" in pool.run("tail", "-auto-retry", named).stdout)
    return named


def _visit(pool: Pool, *words: str, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slotwise", *words]
    return subprocess.run(
        command,
        env=pool.env | env,
        cwd=pool.root,
        input=said,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_tail_shows_output_error_and_files(pool: Pool, job: str) -> None:
    assert pool.run("tail", job).stdout == "out\n"
    assert pool.run("tail", "-stderr", "-maxbytes", "3", job).stdout == "rr\n"
    assert pool.run("tail", job, "d/x").stdout == "inner\n"


def test_tail_follows_no_link_and_leaves_the_directory_by_no_name(pool: Pool, job: str) -> None:
    for name in ("link", "../../secrets/token", "/etc/passwd", "d", "nothing"):
        refused = pool.run("tail", job, name, check=False)
        assert refused.returncode == 1 and refused.stdout == "" and name in refused.stderr


def test_a_command_beside_the_job_has_its_place_user_and_environment(pool: Pool, job: str) -> None:
    done = _visit(pool, "ssh-to-job", job, "cat d/x; echo $COLOUR; id -u; ls /proc/$_CONDOR_JOB_PIDS >&2; exit 7")
    user = os.geteuid() or 65534
    assert (done.returncode, done.stdout) == (7, f"inner\nblue\n{user}\n")


def test_much_input_and_output_pass_unharmed(pool: Pool, job: str) -> None:
    said = "".join(f"line {number}\n" for number in range(200_000))
    assert _visit(pool, "ssh-to-job", job, "cat", said=said).stdout == said


def _at_terminal(pool: Pool, *words: str, typed: bytes, **env: str) -> tuple[int, bytes]:
    """The exit status of a command, and what its terminal showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "slotwise", *words]
    with subprocess.Popen(command, env=pool.env | env, stdin=theirs, stdout=theirs, stderr=theirs) as shell:
        os.close(theirs)
        os.write(ours, typed)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:
            pass  # its end
        os.close(ours)
        return shell.wait(LIMIT_S), seen


def test_a_shell_at_a_terminal(pool: Pool, job: str) -> None:
    typed = b"echo $((6 * 7)) at $(tty | cut -c 1-8); exit 3\n"
    status, seen = _at_terminal(pool, "ssh-to-job", job, typed=typed)
    assert status == 3 and b"42 at /dev/pts" in seen


def test_only_the_owner_visits(pool: Pool, job: str) -> None:
    pool.run("token", "create", "--identity", "bob@elsewhere", "--scope", "WRITE", "--file", str(pool.root / "bob"))
    for command in (("tail", job), ("ssh-to-job", job, "id")):
        refused = pool.run(*command, check=False, SLOTWISE_TOKEN_FILE=str(pool.root / "bob"))
        assert refused.returncode and "job" in refused.stderr and refused.stdout == ""


def test_what_cannot_be_visited_says_why(pool: Pool, job: str) -> None:
    assert "no job 99.0" in pool.run("tail", "99", check=False).stderr
    assert pool.run("ssh-to-job", "99", "id", check=False).returncode == 255
    held = pool.run("submit", "-terse", "job.sub", "-append", "hold = true").stdout.split()[0]
    assert "on hold" in pool.run("tail", held, check=False).stderr
    assert pool.run("tail", "nonsense", check=False).returncode == 2


def test_an_interactive_job_is_a_shell_in_a_slot_and_ends_with_it(pool: Pool) -> None:
    done = _visit(pool, "submit", "-interactive", "job.sub", said="echo my $COLOUR shell; exit 5\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (5, "my blue shell")
    pool.until("the job has left the queue", lambda: pool.json("q", "-constraint", "InteractiveJob") == [])


def test_visits_end_with_the_job_and_leave_no_process(pool: Pool) -> None:
    named = pool.run("submit", "-terse", "job.sub").stdout.split()[0]
    pool.until("it prints", lambda: pool.run("tail", "-auto-retry", named).stdout)
    mark = f"86400.{time.monotonic_ns()}"
    words = (sys.executable, "-m", "slotwise")
    shown = pool.root / "followed"
    with shown.open("wb") as stream:
        followed = subprocess.Popen([*words, "tail", "-follow", named], env=pool.env, stdout=stream)
    visit = [*words, "ssh-to-job", named, f"sleep {mark} & sleep {mark}"]
    with subprocess.Popen(visit, env=pool.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as shell:
        pool.until("it sleeps", lambda: len(_sleepers(mark)) == 2)
        pool.until("its output is followed", lambda: shown.stat().st_size)
        pool.run("rm", named)
        assert shell.wait(LIMIT_S) != 0
        assert followed.wait(LIMIT_S) == 0
    pool.until("the sleepers are gone", lambda: not _sleepers(mark))


def test_a_visit_ends_when_its_visitor_is_no_queue_superuser_any_more(pool: Pool, job: str) -> None:
    config = pool.config_file.read_text()
    token = pool.root / "operator"
    pool.run("token", "create", "--identity", "op@elsewhere", "--scope", "WRITE", "--file", str(token))

    def superusers(names: str) -> None:
        pool.config_file.write_text(f"{config}QUEUE_SUPER_USERS = {names}\n")
        pool.run("reconfig", "schedd")

    mark, own_mark = (f"{seconds}.{time.monotonic_ns()}" for seconds in (86400, 86401))
    words = [sys.executable, "-m", "slotwise", "ssh-to-job", job, f"sleep {mark}"]
    env = pool.env | {"SLOTWISE_TOKEN_FILE": str(token)}
    try:
        superusers("op@elsewhere")
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with contextlib.ExitStack() as undo:
            visit = subprocess.Popen(words, env=env, text=True, **quiet)  # type: ignore[call-overload]
            owners = subprocess.Popen([*words[:-1], f"sleep {own_mark}"], env=pool.env, **quiet)  # type: ignore[call-overload]
            for each in (visit, owners):
                undo.enter_context(each)
                undo.callback(each.kill)
            pool.until("both sleep", lambda: _sleepers(mark) and _sleepers(own_mark))
            superusers("op@elsewhere, also@elsewhere")
            assert visit.poll() is None
            superusers("also@elsewhere")
            assert visit.wait(LIMIT_S) == 255
            assert "op@elsewhere may no longer act on job" in visit.stderr.read()
            pool.until("the visitor's process is gone", lambda: not _sleepers(mark))
            assert owners.poll() is None and _sleepers(own_mark), "the owner's own visit goes on"
    finally:
        pool.config_file.write_text(config)
        pool.run("reconfig", "schedd")


def _sleepers(mark: str) -> list[Path]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes() == f"sleep\0{mark}\0".encode():
                found.append(place)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("client", ["scp -q", "rsync"])
def test_clients_of_ssh_copy_files_to_and_from_a_job(pool: Pool, job: str, client: str) -> None:
    name = client.split()[0]
    host.need(host.programs(name, *([_SFTP_SERVER] if name == "scp" else [])))
    fetched = _visit(pool, "ssh-to-job", "-ssh", client, job, "remote:d/x", f"{name}.got")
    assert fetched.returncode == 0, fetched.stderr
    assert (pool.root / f"{name}.got").read_text() == "inner\n"
    (pool.root / f"{name}.put").write_text("outer\n")
    assert _visit(pool, "ssh-to-job", "-ssh", client, job, f"{name}.put", "remote:d/").returncode == 0
    assert _visit(pool, "ssh-to-job", job, f"cat d/{name}.put").stdout == "outer\n"


def test_sftp_runs_beside_a_job(pool: Pool, job: str) -> None:
    host.need(host.programs("sftp", _SFTP_SERVER))
    done = _visit(pool, "ssh-to-job", "-ssh", "sftp -b -", job, said="cd d\nls\nget x sftp.got\n")
    assert done.returncode == 0, done.stderr
    assert (pool.root / "sftp.got").read_text() == "inner\n"


def test_rsync_reaches_a_job_as_a_host(pool: Pool, job: str, tmp_path: Path) -> None:
    """The form of HTCondor's manual: ``rsync -e condor_ssh_to_job 32.0:outputfile.dat .``, and whole directories."""
    host.need(host.programs("rsync"))
    names = Path(pool.run("condor-names", "--in", str(tmp_path / "names")).stdout.strip())

    def rsync(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["rsync", "-e", str(names / "condor_ssh_to_job"), *words]
        return subprocess.run(
            command, env=pool.env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    done = rsync(f"{job}:d/x", "fetched")
    assert (done.returncode, (tmp_path / "fetched").read_text()) == (0, "inner\n"), done.stderr
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_text("outer\n")
    assert rsync("-r", "tree/", f"{job}:tree/").returncode == 0
    assert _visit(pool, "ssh-to-job", job, "cat tree/deep/file").stdout == "outer\n"
    assert rsync("-r", f"{job}:tree", "back/").returncode == 0
    assert (tmp_path / "back" / "tree" / "deep" / "file").read_text() == "outer\n"
    assert rsync(f"{job}:not-there", ".").returncode == 23


def test_options_of_htcondors_tool_that_have_nothing_to_do_here_are_taken(pool: Pool, job: str, tmp_path: Path) -> None:
    tool = Path(pool.run("condor-names", "--in", str(tmp_path / "names")).stdout.strip()) / "condor_ssh_to_job"
    env = {name: value for name, value in pool.env.items() if name != "DISPLAY"}
    command = [str(tool), "-debug", "-keygen-options", "-b 2048", "-X", job, "echo here"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert done.stderr == "WARNING: -X: DISPLAY is not set, so there is no display to forward\n"


def test_other_clients_of_ssh_are_refused(pool: Pool, job: str) -> None:
    assert "no ssh is involved" in _visit(pool, "ssh-to-job", "-ssh", "dropbear", job).stderr


def test_programs_beside_a_job_use_the_display_of_the_visitor(pool: Pool, job: str, tmp_path: Path) -> None:
    host.need(host.programs("xauth", "xprop"))
    with running_xvfb(tmp_path / "cookies") as number:
        env = {"DISPLAY": f":{number}", "XAUTHORITY": str(tmp_path / "mine")}
        subprocess.run(["xauth", "-qf", env["XAUTHORITY"], "add", env["DISPLAY"], ".", COOKIE.hex()], check=True)
        written = "xprop -root -format SEEN 8s -set SEEN 'beside the job' && stat -c %a $XAUTHORITY; ls -d .x11-*; "
        done = _visit(pool, "ssh-to-job", "-X", job, written + "XAUTHORITY=/dev/null xprop -root", **env)
        mode, directory = done.stdout.splitlines() or (done.stderr, "")
        assert (mode, directory[:5], done.returncode) == ("600", ".x11-", 1), done
        assert "not the cookie of this session" in done.stderr, "a stranger reached the display"
        # A shell without a command has it, too, unless it is not wanted; and nothing stays beside the job.
        shell = _visit(pool, "ssh-to-job", "-X", job, said="xprop -root SEEN\n", **env)
        assert '"beside the job"' in shell.stdout, shell
        typed = b"tty | cut -c 1-8; xprop -root SEEN; exit 3\n"
        status, seen = _at_terminal(pool, "ssh-to-job", "-X", job, typed=typed, **env)
        assert status == 3 and b"/dev/pts\r" in seen and b'"beside the job"' in seen, seen
        assert _visit(pool, "ssh-to-job", "-X", "-x", job, "echo $DISPLAY", **env).stdout == "\n"
    pool.until("the relay is gone", lambda: _visit(pool, "ssh-to-job", job, "ls -d .x11-*").stdout == "")


def test_a_display_that_cannot_be_forwarded_is_an_error(pool: Pool, job: str) -> None:
    assert "DISPLAY is not set" in _visit(pool, "ssh-to-job", "-X", job, DISPLAY="").stderr
    assert "-X: no X server answers" in _visit(pool, "ssh-to-job", "-X", job, DISPLAY="/nowhere:0").stderr
    assert "not with -ssh" in _visit(pool, "ssh-to-job", "-X", "-ssh", "scp", job).stderr

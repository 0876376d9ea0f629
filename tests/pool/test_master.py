"""The master with real processes: up, down, restart, adoption, back-off, death of master and spawner."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.daemon import lock, process

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

#: The smallest pool: what is tested here is the master, not what it starts.
SMALL = "DAEMON_LIST = MASTER, COLLECTOR\n"


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    return make_pool(SMALL)


def test_up_returns_when_all_answer_and_down_leaves_nothing(pool: Pool) -> None:
    pool.up()
    assert set(pool.pids()) == {"master", "spawner", "collector"}
    assert pool.answers("collector") and pool.answers("master")
    again = pool.run("up")
    assert "runs already" in again.stdout
    pool.down()
    assert not list(pool.home.run.glob("*.json"))
    assert "No pool runs" in pool.run("down").stdout


def test_a_home_whose_path_is_longer_than_that_of_a_socket_works(tmp_path: Path) -> None:
    pool = Pool(tmp_path / ("x" * 100), "NUM_CPUS = 1\n")
    try:
        pool.up()
        assert pool.answers("schedd")
        (pool.root / "job.sub").write_text("executable = /bin/true\nlog = log\nqueue\n")
        pool.run("submit", "job.sub")
        pool.run("wait", "log")
        assert "Normal termination (return value 0)" in (pool.root / "log").read_text()
    finally:
        pool.destroy()


@pytest.fixture
def placed(pool: Pool) -> Pool:
    """A pool that its configuration alone places, with its own files where the administrator's are."""
    pool.config_file.write_text(f"{SMALL}LOCAL_DIR = {pool.home.root}\nLOCAL_CONFIG_DIR = $(LOCAL_DIR)/config.d\n")
    del pool.env["SLOTWISE_HOME"]
    pool.env["HOME"] = str(pool.root)
    return pool


def test_condor_config_alone_names_the_pool(placed: Pool) -> None:
    placed.up()
    assert set(placed.pids()) == {"master", "spawner", "collector"}
    placed.run("config", "set", "SCHEDD.MAX_JOBS_RUNNING = 5")
    assert "runs already" in placed.run("up").stdout
    assert placed.run("status", "-any", "-af", "MyType").stdout
    assert not (placed.root / ".slotwise").exists()
    placed.down()
    placed.up()


def test_condor_master_starts_and_ends_the_daemons_of_the_host(placed: Pool) -> None:
    placed.run("condor_master", "-pidfile", "pid")
    assert (placed.root / "pid").read_text() == f"{placed.pid('master')}\n" and placed.answers("collector")
    (placed.root / "other").write_text("1\n")
    refused = placed.run("condor_master", "-kill", "other", check=False)
    assert refused.returncode == 1 and "not the master" in refused.stderr
    placed.run("condor_master", "-kill", "pid")
    placed.until("all are gone", lambda: not placed.pids())
    master = placed.begin("condor_master", "-f", "-pidfile", "pid")
    placed.until("the collector answers", lambda: placed.answers("collector"))
    assert placed.pid("master") == master.pid
    master.send_signal(signal.SIGTERM)
    assert master.wait(LIMIT_S) == 0
    placed.until("all are gone", lambda: not placed.pids())


@pytest.mark.parametrize("option", ["-t", "-local-name x", "-port 9", "-runfor 5", "more"])
def test_condor_master_refuses_what_it_does_not_do(pool: Pool, option: str) -> None:
    refused = pool.run("condor_master", "-f", *option.split(), check=False)
    assert refused.returncode == 1 and option.split()[0].lstrip("-")[:1] in refused.stderr and not pool.pids()


def test_up_makes_keys_that_only_the_owner_reads_and_no_token(pool: Pool) -> None:
    pool.up()
    files = {path.relative_to(pool.home.secrets): path for path in pool.home.secrets.rglob("*") if path.is_file()}
    for path in files.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (signing,) = (path for path in files.values() if path.parent.name == "signing")
    assert {str(name) for name in files} == {
        f"signing/{signing.name}",
        "pool.json",
        "host.pem",
    }
    for directory in (pool.home.secrets, signing.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_masters_ad_has_when_daemons_started_and_is_of_now(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 1\nMASTER_UPDATE_INTERVAL = 1\n")
    pool.up()
    names = "MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"

    def ad() -> dict[str, int]:
        found: dict[str, int] = next(iter(pool.json("status", "-master")), {})
        return found

    pool.until("all daemons are in it", lambda: all(f"{name}_Timestamp" in ad() for name in names))
    first = ad()
    assert all(first["MASTER_StartTime"] <= first[f"{name}_StartTime"] <= first["MyCurrentTime"] for name in names)
    pool.until("it is made anew", lambda: ad()["MyCurrentTime"] > first["MyCurrentTime"])


def test_daemons_that_are_started_one_by_one_make_a_pool(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 1\n")
    names = ("startd", "schedd", "starter", "negotiator", "collector")
    processes = [pool.begin("daemon", name) for name in names]
    for name in names:
        pool.until(f"{name} answers", lambda name=name: pool.answers(name))
    (tmp_path / "s.sub").write_text("executable = /bin/true\nlog = l\nqueue\n")
    pool.run("submit", "s.sub", cwd=tmp_path)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=tmp_path)
    pool.down()
    assert [process.wait(LIMIT_S) for process in processes] == [0] * len(names)


def test_a_daemon_that_is_killed_comes_back(pool: Pool) -> None:
    pool.up()
    before = pool.kill("collector")
    pool.until("a new collector answers", lambda: pool.pid("collector") and pool.answers("collector"))
    assert pool.pid("collector") != before


def test_a_killed_master_is_replaced_and_the_new_one_adopts(pool: Pool) -> None:
    pool.up()
    collector = pool.pid("collector")
    master = pool.kill("master")
    pool.run("up")
    assert pool.pid("master") not in (None, master)
    assert pool.pid("collector") == collector
    # What was adopted is also kept running.
    assert collector is not None
    age_s = process.age_s(collector)
    pool.kill("collector")
    pool.until("a new collector", lambda: pool.pid("collector"))
    log = pool.home.log / "MasterLog"
    line = re.compile(rf"collector \(pid {collector}\) exited unexpectedly after (\S+) s: how is not known")
    ended = pool.until("the log has its end", lambda: line.search(log.read_text()))
    assert float(ended[1]) >= age_s - 0.1, "its whole life counts, not the time since its adoption"
    pool.down()


def test_up_adopts_when_master_and_spawner_are_gone(pool: Pool) -> None:
    pool.up()
    collector = pool.pid("collector")
    pool.stop("master")  # else it makes a new spawner
    pool.kill("spawner")
    pool.kill("master")
    assert pool.pids() == {"collector": collector}
    pool.up()
    assert pool.pid("collector") == collector
    pool.down()


def test_down_works_without_a_master(pool: Pool) -> None:
    pool.up()
    pool.stop("master")  # else it makes a new spawner
    pool.kill("spawner")
    pool.kill("master")
    pool.down()


def test_a_lost_spawner_is_replaced(pool: Pool) -> None:
    pool.up()
    pool.kill("spawner")
    pool.kill("collector")
    pool.until("a new collector", lambda: pool.pid("collector"))
    pool.until("a new spawner", lambda: pool.pid("spawner"))
    pool.kill("spawner")
    pool.run("restart", "master")  # waits for one
    assert pool.answers("master")
    pool.down()


def test_restart_gives_a_new_process(pool: Pool) -> None:
    pool.up()
    before = pool.pid("collector")
    pool.run("restart", "collector")
    assert pool.pid("collector") not in (None, before)
    refused = pool.run("restart", "cellar", check=False)
    assert refused.returncode == 1 and "cellar" in refused.stderr


def test_a_daemon_that_could_not_start_again_is_not_stopped_by_restart(pool: Pool) -> None:
    pool.up()
    before = pool.pid("collector")
    pool.config_file.write_text(SMALL + "COLLECTOR.NO_JOB_NETWORKING = true\n")
    for name in ("collector", "master"):
        refused = pool.run("restart", name, check=False)
        assert refused.returncode == 1 and "NO_JOB_NETWORKING" in refused.stderr
    assert pool.pid("collector") == before and pool.answers("collector") and pool.answers("master")


def test_the_master_itself_is_restarted_under_living_daemons(pool: Pool) -> None:
    pool.up()
    master, collector = pool.pid("master"), pool.pid("collector")
    pool.run("restart", "master")
    assert pool.pid("master") not in (None, master) and pool.pid("collector") == collector


def test_jobs_go_on_when_all_daemons_are_restarted_and_they_are_to_be_kept(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 2\n")
    pool.up()
    (pool.root / "job.sub").write_text("executable = /bin/sleep\narguments = 1000\nlog = log\nqueue\n")
    pool.run("submit", "job.sub")
    pool.until("the job runs", lambda: pool.run("q", "-af", "JobStatus").stdout == "2\n")
    before = pool.pids()
    pool.run("restart", "--keep", "master")
    pool.run("restart", "--keep")
    assert not set(before.values()) & set(pool.pids().values()) and before.keys() == pool.pids().keys()
    pool.until("its run is found again", lambda: "Claimed" in pool.run("status", "-af", "State").stdout)
    told = (pool.root / "log").read_text()
    assert pool.run("q", "-af", "JobStatus", "NumJobStarts").stdout.split() == ["2", "1"]
    assert "evicted" not in told and told.count("executing") == 1
    pool.run("rm", "-all")


def test_a_port_that_is_taken_fails_the_start_and_shows_the_log(make_pool: Callable[[str], Pool]) -> None:
    first = make_pool(SMALL)
    first.up()
    port = next(row["Address"] for row in first.json("up") if row["Daemon"] == "collector").rpartition(":")[2]
    second = make_pool(SMALL + f"SLOTWISE_COLLECTOR_PORT = {port}\n")
    done = second.run("up", check=False)
    assert done.returncode == 1
    assert "collector" in done.stderr and f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert second.pids() == {}


def test_restart_says_why_a_daemon_did_not_start_again(pool: Pool) -> None:
    pool.up()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        pool.config_file.write_text(SMALL + f"SLOTWISE_COLLECTOR_PORT = {port}\n")
        refused = pool.run("restart", "collector", check=False)
    assert refused.returncode == 1
    assert "collector ended at its start" in refused.stderr and f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    pool.until("it is started again", lambda: pool.answers("collector"))


def test_up_tells_what_is_doubtful_in_the_configuration(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(SMALL + "NUM_CPUZ = 3\nFLOCK_TO = cm\n")
    told = pool.run("up").stderr.splitlines()
    assert [line.partition("condor_config:")[2][:11] for line in told] == ["2: warning:", "3: warning:"]
    assert "did you mean NUM_CPUS?" in told[0] and "FLOCK_TO" in told[1]


def test_up_refuses_what_promises_a_refusal(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(SMALL + "NO_JOB_NETWORKING = true\n")
    refused = pool.run("up", check=False)
    assert refused.returncode == 1 and not pool.pids()
    assert "NO_JOB_NETWORKING" in refused.stderr
    assert "SLOTWISE_IGNORE_UNSUPPORTED" in refused.stderr


def test_tools_in_another_shell_use_the_file_that_up_was_given(
    make_pool: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = make_pool(SMALL + "COLOR = blue\n")
    other = tmp_path / "other"
    other.write_text("COLOR = red\n")
    del pool.env["CONDOR_CONFIG"]
    pool.run("up", "--config", str(pool.config_file))
    assert pool.run("config", "val", "COLOR").stdout == "blue\n"
    assert pool.run("config", "val", "COLOR", CONDOR_CONFIG=str(other)).stdout == "red\n"
    again = pool.run("up", "--config", str(other))
    assert (
        "runs already" in again.stdout and f"brought up with {pool.config_file}; {other} counts after" in again.stderr
    )
    assert pool.run("config", "val", "COLOR").stdout == "blue\n"
    pool.down()
    told = pool.run("up").stdout
    assert str(pool.config_file) in told and set(pool.pids()) == {"master", "spawner", "collector"}
    pool.down()
    pool.run("up", CONDOR_CONFIG=str(pool.config_file), _CONDOR_COLOR="green")
    assert pool.run("config", "val", "COLOR").stdout == "blue\n"


def test_submit_in_another_shell_applies_the_defaults_of_the_file(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool('JOB_DEFAULT_REQUESTMEMORY = 77\nSUBMIT_ATTRS = Color\nColor = "blue"\nNUM_CPUS = 1\n')
    del pool.env["CONDOR_CONFIG"]
    pool.run("up", "--config", str(pool.config_file))
    (pool.root / "a.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    pool.run("submit", "a.sub")
    assert pool.run("q", "-af", "RequestMemory", "Color").stdout == "77 blue\n"


def test_a_broken_configuration_starts_nothing(make_pool: Callable[[str], Pool]) -> None:
    broken = make_pool("use ROLE : Nonsense\n")
    done = broken.run("up", check=False)
    assert done.returncode == 1 and "condor_config" in done.stderr
    assert broken.pids() == {}


def test_reconfig_reaches_the_daemons(pool: Pool) -> None:
    pool.up()
    pool.config_file.write_text(SMALL + "SLOTWISE_TEST_VALUE = 7\n")
    done = pool.run("reconfig")
    assert "collector has read its configuration" in done.stdout
    pool.config_file.write_text(SMALL + "STRAT = True\n")
    said = pool.run("reconfig").stderr.splitlines()
    assert len(said) == 1 and said[0].startswith("WARNING: master, collector") and "STRAT" in said[0]
    pool.config_file.write_text("use ROLE : Nonsense\n")
    refused = pool.run("reconfig", "collector", check=False)
    assert refused.returncode == 1 and "ROLE" in refused.stderr
    assert pool.answers("collector")


def test_without_a_token_only_ping_is_answered(pool: Pool) -> None:
    pool.up()
    nobody = pool.root / "nobody"
    nobody.write_text("")
    done = pool.run("ping", "collector", SLOTWISE_TOKEN_FILE=str(nobody))
    assert "unauthenticated" in done.stdout and "none" in done.stdout
    for words in (["reconfig", "collector"], ["restart", "collector"]):
        refused = pool.run(*words, check=False, SLOTWISE_TOKEN_FILE=str(nobody))
        assert refused.returncode == 1 and "carries no token" in refused.stderr


def test_a_token_with_too_little_scope_is_refused(pool: Pool) -> None:
    pool.up()
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "WRITE", "--file", "bob.token")
    bob = pool.root / "bob.token"
    assert stat.S_IMODE(bob.stat().st_mode) == 0o600
    done = pool.run("ping", "collector", SLOTWISE_TOKEN_FILE=str(bob))
    assert "bob@dom" in done.stdout and "READ WRITE" in done.stdout
    refused = pool.run("reconfig", "collector", check=False, SLOTWISE_TOKEN_FILE=str(bob))
    assert refused.returncode == 1 and "bob@dom may not call" in refused.stderr


def test_nothing_listens_beyond_the_machine_in_clear_text(make_pool: Callable[[str], Pool]) -> None:
    open_pool = make_pool(SMALL + "SLOTWISE_LISTEN = 0.0.0.0\n")
    done = open_pool.run("up", check=False)
    assert done.returncode == 1 and "without TLS" in done.stderr
    open_pool.until("the spawner of the refused master has ended, too", lambda: not open_pool.pids())


def test_a_daemon_that_hangs_is_killed_and_started_again(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(SMALL + "COLLECTOR_NOT_RESPONDING_TIMEOUT = 4\n")
    pool.up()
    before = pool.stop("collector")
    pool.until("a new collector answers", lambda: pool.pid("collector") != before and pool.answers("collector"))
    log = pool.home.log / "MasterLog"
    pool.until("the log has its end", lambda: "killed because it no longer answered" in log.read_text())
    assert f"collector ({before}) has not answered for" in log.read_text()
    # One that was adopted by a new master is under watch as well.
    pool.run("restart", "master")
    adopted = pool.stop("collector")
    pool.until("another collector", lambda: pool.pid("collector") not in (None, adopted))


@pytest.mark.parametrize("stopped", [("collector",), ("master",), ("spawner",), ("collector", "spawner", "master")])
@pytest.mark.parametrize("mode", ["--fast", "--graceful"])
def test_down_ends_processes_that_were_stopped(pool: Pool, stopped: tuple[str, ...], mode: str) -> None:
    pool.up()
    for name in stopped:
        pool.stop(name)
    pool.run("down", mode, timeout=LIMIT_S)
    assert pool.pids() == {}


def test_two_downs_at_once_both_succeed(pool: Pool) -> None:
    pool.up()
    first = pool.begin("down", "--fast")
    second = pool.begin("down", "--fast")
    assert first.wait(LIMIT_S) == 0 and second.wait(LIMIT_S) == 0
    assert pool.pids() == {}


def test_two_ups_at_once_make_one_pool(pool: Pool) -> None:
    first = pool.begin("up")
    second = pool.begin("up")
    assert first.wait(LIMIT_S) == 0 and second.wait(LIMIT_S) == 0
    assert set(pool.pids()) == {"master", "spawner", "collector"}


def test_up_waits_for_a_down_that_is_under_way(pool: Pool) -> None:
    pool.up()
    ending = pool.begin("down", "--fast")
    pool.until("the down has begun", lambda: lock.holder(pool.home, "down") or ending.poll() is not None)
    pool.run("up")
    assert ending.wait(LIMIT_S) == 0
    assert pool.answers("collector")


def test_the_administrator_gets_mail_about_a_daemon_that_died(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    program, mail = tmp_path / "fake-mail", tmp_path / "mail"
    program.write_text(f'#!/bin/sh\n{{ printf "%s|" "$@"; echo; cat; }} > {mail}.part && mv {mail}.part {mail}\n')
    program.chmod(0o755)
    tmp_path.chmod(0o777)
    knobs = f"SENDMAIL =\nMAIL = {program}\nCONDOR_ADMIN = nobody@x.org\nCOLLECTOR_ADMIN_EMAIL = root@x.org\n"
    pool = make_pool(SMALL + knobs + "OBITUARY_LOG_LENGTH = 5\n")
    pool.up()
    pid = pool.pid("collector")
    assert pid is not None
    os.kill(pid, signal.SIGBUS)
    pool.until("an obituary is mailed", mail.exists)
    words, _, text = mail.read_text().partition("\n")
    assert words.startswith("-s|[Condor] Problem ") and words.endswith(": collector died (7)|root@x.org|")
    assert "died due to signal 7 (Bus error).\nCondor will automatically restart this process in 0 seconds.\n" in text
    assert "\n*** Last 5 line(s) of file " in text and "*** End of file CollectorLog\n" in text
    assert "local HTCondor administrator: nobody@x.org\n" in text
    pool.until(
        "a new collector answers", lambda: pool.pid("collector") not in (None, pid) and pool.answers("collector")
    )


def test_up_says_what_is_not_enforced_and_why_commands_would_fail(
    make_pool: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = make_pool("NUM_CPUS = 1\nBASE_CGROUP =\n")
    said = pool.run("up").stderr
    assert "NOTE: memory and CPU limits of jobs are not enforced here" in said
    assert pool.run("up").stderr == ""
    pool.down()
    # Root reads no configuration from where others may exchange it.
    pool.env["CONDOR_CONFIG"] = str(pool.config_file.rename(tmp_path / "condor_config"))
    pool.root.chmod(0o777)
    said = pool.run("up").stderr
    assert f"{pool.root} may be written by everybody: name a SLOTWISE_HOME below" in said
    pool.root.chmod(0o755)


def test_a_daemon_whose_start_hangs_is_named_and_replaced(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    """The negotiator's part of the configuration is a pipe that nobody writes to: it waits there."""
    own = tmp_path / "NEGOTIATOR.conf"
    own.touch()
    pool = make_pool(f"include ifexist : {tmp_path}/$(SUBSYSTEM).conf\n")
    pool.env["_CONDOR_SLOTWISE_START_TIMEOUT"] = "4"
    pool.up()
    own.unlink()
    os.mkfifo(own)
    pool.kill("negotiator")
    log = pool.home.log / "MasterLog"

    def named() -> bool:
        told = pool.run("ping", check=False)
        return told.returncode != 0 and any(
            line.startswith("negotiator") and "starting, and does not answer yet" in line
            for line in told.stdout.splitlines()
        )

    pool.until("ping names it", named)
    pool.until(
        "it is given up", lambda: re.search(r"negotiator \(\d+\) has not answered for .* killed", log.read_text())
    )
    own.unlink()
    own.touch()
    pool.until("its successor answers", lambda: pool.answers("negotiator"))
    assert pool.run("ping", check=False).returncode == 0


def test_daemons_have_the_variables_that_the_configuration_gives_them(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        "SCHEDD_ENVIRONMENT = \"_CONDOR_SCHEDD_LOG='$(LOG)/Its own'\"\n"
        "STARTD_ENVIRONMENT = CHOSEN=x;OTHER=y\nJOB_INHERITS_STARTER_ENVIRONMENT = CHOSEN\n"
    )
    pool.up()
    assert (pool.home.log / "Its own").exists() and not (pool.home.log / "SchedLog").exists()
    (pool.root / "s.sub").write_text(
        "executable = /bin/sh\narguments = \"-c 'echo $CHOSEN-$OTHER'\"\noutput = out\nlog = log\nqueue\n"
    )
    pool.run("submit", "s.sub")
    pool.run("wait", "log")
    assert (pool.root / "out").read_text() == "x-\n"

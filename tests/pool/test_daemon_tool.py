"""Daemons stopped, started, configured anew by HTCondor's names, here and on hosts by name; the program at the end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

SMALL = "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD\n"


@pytest.fixture
def pool(make_pool: Callable[[str], Pool], tmp_path: Path) -> Pool:
    program = tmp_path / "end.sh"
    program.write_text(f"#!/bin/sh\necho over > {tmp_path}/over\n")
    program.chmod(0o755)
    made = make_pool(f"{SMALL}MASTER_SHUTDOWN_REPORT = {program}\nMASTER_SHUTDOWN_BROKEN = /no/such/program\n")
    made.up()
    return made


@pytest.fixture
def tool(pool: Pool, tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    yield tool_of(pool, tmp_path)
    shutil.rmtree(tmp_path / "names", ignore_errors=True)


def tool_of(pool: Pool, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls a command of this pool by its name of HTCondor's."""
    names = pool.run("condor-names", "--in", str(tmp_path / "names")).stdout.strip()

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        env = pool.env | {"PATH": f"{names}:/usr/bin:/bin"}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=2 * LIMIT_S)

    return call


def test_orders_go_to_this_host_to_hosts_by_name_and_to_all(
    pool: Pool, tool: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    host = pool.until("the master's ad", lambda: pool.run("status", "-master", "-af", "Machine").stdout.strip())
    assert tool("condor_reconfig").stdout == 'Sent "Reconfig" command to local master\n'
    assert tool("condor_reconfig", "-schedd").stdout == 'Sent "Reconfig" command to local schedd\n'
    assert tool("condor_reconfig", "-all").stdout == f'Sent "Reconfig" command to master {host}\n'
    assert tool("condor_reconfig", host).stdout == f'Sent "Reconfig" command to master {host}\n'
    assert tool("condor_reconfig", "-constraint", "Machine =!= undefined").stdout.endswith(f"master {host}\n")
    before = pool.pids()["schedd"]
    assert tool("condor_restart", "-daemon", "schedd").stdout == 'Sent "Restart" command to local schedd\n'
    assert pool.pids()["schedd"] != before
    assert (
        tool("condor_off", "-fast", "-schedd").stdout
        == 'Sent "Kill-Daemon-Fast" command for "schedd" to local master\n'
    )
    pool.until("the schedd is off", lambda: not pool.answers("schedd"))
    assert tool("condor_on", "-schedd", host).stdout == f'Sent "Spawn-Daemon" command for "schedd" to master {host}\n'
    pool.until("the schedd is on", lambda: pool.answers("schedd"))
    assert pool.run("reconfig", "-all").stdout == f"All daemons of {host}: configured anew\n"


def test_what_is_not_there_is_said_in_htcondors_words(
    tool: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    gone = tool("condor_reconfig", "nosuchhost")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == (
        "Can't find address for master nosuchhost\nCan't find address for nosuchhost\n"
        "Perhaps you need to query another pool.\n"
    )
    none = tool("condor_restart", "-constraint", "false")
    assert none.stderr.startswith("Found no ClassAds when querying pool (local)\nCan't find addresses for master's for")
    wrong = tool("condor_reconfig", "-constraint", "(((")
    assert wrong.stderr.startswith("ERROR: can't connect to local collector\n") and wrong.returncode == 1
    assert "conflicts with other arguments" in tool("condor_off", "-constraint", "true", "host").stderr
    assert "is not valid with condor_reconfig" in tool("condor_reconfig", "-fast").stderr
    assert "only specify one daemon flag" in tool("condor_off", "-schedd", "-startd").stderr


def test_a_machine_is_drained_before_its_startd_ends_restarts_or_reads_its_configuration(
    make_pool: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = make_pool(f"{SMALL.strip()}, STARTD\nNUM_CPUS = 2\n")
    pool.up()
    tool = tool_of(pool, tmp_path)

    def states() -> set[str]:
        return set(pool.run("status", "-af", "State").stdout.split())

    pool.until("a slot", lambda: states() == {"Unclaimed"})
    assert '-quick"' in tool("condor_off", "-quick").stderr
    assert '-drain"' in tool("condor_on", "-drain").stderr
    assert "graceful drain only" in tool("condor_off", "-drain", "-fast", "-start", "true").stderr
    refused = tool("condor_off", "-drain", "-check", "false")
    assert refused.returncode == 1 and pool.pid("startd") is not None

    said = "Sent request to drain the startd on this machine, and then to {}\n"
    former = pool.pid("startd")
    assert tool("condor_restart", "-drain", "-quick").stdout == said.format("restart")
    pool.until("another startd", lambda: pool.pid("startd") not in (None, former))
    pool.until("that is not drained", lambda: states() == {"Unclaimed"})
    pool.config_file.write_text(pool.config_file.read_text() + 'STARTD_ATTRS = Colour\nColour = "red"\n')
    assert tool("condor_reconfig", "-drain").stdout == said.format("reconfig")
    pool.until("the new configuration", lambda: pool.run("status", "-af", "Colour").stdout == "red\n")
    pool.until("that it is not drained", lambda: states() == {"Unclaimed"})
    assert tool("condor_off", "-drain", "-reason", "new disk").stdout == said.format("off")
    pool.until("the startd has gone", lambda: pool.pid("startd") is None and not states())
    assert pool.pid("master") is not None
    assert tool("condor_on", "-startd").returncode == 0
    pool.until("it is wanted again", lambda: states() == {"Unclaimed"})


def test_the_program_that_was_chosen_runs_when_the_master_ends(
    pool: Pool, tool: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert tool("condor_set_shutdown").stderr.startswith('ERROR: "-exec" required for condor_set_shutdown\n')
    unknown = tool("condor_set_shutdown", "-exec", "NOPE")
    assert unknown.returncode == 1 and "MASTER_SHUTDOWN_NOPE is not set here" in unknown.stderr
    broken = tool("condor_set_shutdown", "-exec", "BROKEN")
    assert broken.returncode == 1 and "/no/such/program is not a program" in broken.stderr
    path = tool("condor_set_shutdown", "-exec", str(tmp_path / "end.sh"))
    assert path.returncode == 1 and "is not the name of a program" in path.stderr
    chosen = tool("condor_set_shutdown", "-exec", "REPORT")
    assert chosen.stdout == 'Set exec to REPORT\nSent "Set-Shutdown-Program" command to local master\n'
    pool.down()
    pool.until("the program has run", (tmp_path / "over").exists)


def test_no_program_runs_when_the_choice_is_taken_back(pool: Pool, tmp_path: Path) -> None:
    pool.run("set-shutdown", "-exec", "REPORT")
    assert "no program" in pool.run("set-shutdown", "-clear").stdout
    pool.down()
    assert not (tmp_path / "over").exists()

"""What running jobs get from a real pool: checkpoints that outlive evictions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

#: Pools of tests lie below /tmp, which jobs otherwise have one of their own of.
BASE = "NUM_CPUS = 2\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\nMOUNT_UNDER_SCRATCH =\n"
#: Counts on from its checkpoint; at 2 it waits to be evicted if it has never been.
COUNTER = """#!/bin/sh
n=$(cat count 2>/dev/null || echo 0)
n=$((n + 1))
echo $n > count
echo "count $n"
[ $n -eq 1 ] && exit 85
if [ $n -eq 2 ]; then touch {flag}; while [ -e {block} ]; do sleep 0.1; done; exit 85; fi
exit 7
"""


def submit(pool: Pool, program: str, *lines: str) -> Path:
    """Queue a job that runs ``program``; the path of its event log."""
    pool.root.parent.chmod(0o755)
    pool.root.chmod(0o755)
    place = pool.root / "job"
    place.mkdir(exist_ok=True)
    place.chmod(0o777)
    (place / "program").write_text(program)
    (place / "program").chmod(0o755)
    head = ["executable = program", "log = log", "output = out", "error = err", "should_transfer_files = yes"]
    (place / "job.sub").write_text("\n".join([*head, *lines, "queue"]) + "\n")
    pool.run("submit", "job.sub", cwd=place)
    return place / "log"


def events(log: Path, kind: str) -> int:
    """How many events of a kind the log has."""
    return sum(line.startswith(f"{kind} (") for line in log.read_text().splitlines()) if log.exists() else 0


def history(pool: Pool) -> dict[str, Any]:
    """The only job that has left the queue."""
    (ad,) = pool.json("history")
    found: dict[str, Any] = ad
    return found


def test_a_job_evicted_after_a_checkpoint_goes_on_from_it(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    flag, block = pool.root / "flags" / "flag", pool.root / "flags" / "block"
    flag.parent.mkdir()
    flag.parent.chmod(0o777)
    os.close(os.open(block, os.O_CREAT))
    lines = ("checkpoint_exit_code = 85", "transfer_checkpoint_files = count", "transfer_output_files = count")
    log = submit(pool, COUNTER.format(flag=flag, block=block), *lines)
    pool.until("it runs behind its checkpoint", flag.exists)
    pool.run("vacate-job", "-all")
    pool.until("it was evicted", lambda: events(log, "004") >= 1)
    pool.until("it runs again", lambda: events(log, "001") >= 2)
    block.unlink()
    pool.until("it has ended", lambda: events(log, "005") == 1)
    assert "return value 7" in log.read_text()
    out = (log.parent / "out").read_text().split("\n")
    assert out == ["count 1", "count 2", "count 3", ""]
    assert (log.parent / "count").read_text() == "3\n"
    ad = history(pool)
    assert ad["CheckpointNumber"] == 1 and ad["JobLastCheckpointTime"] > 0
    assert "Finished transferring output files" in log.read_text()
    kept = pool.home.spool / "jobs"
    pool.until("no checkpoint stays", lambda: not list(kept.glob("*/*")))


def test_nothing_stays_of_a_removed_job_that_would_have_been_kept_for_its_next_run(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool(BASE)
    pool.up()
    script = "#!/bin/sh\nhead -c 2000000 /dev/zero > state\necho began\nsleep 600\n"
    log = submit(pool, script, "when_to_transfer_output = ON_EXIT_OR_EVICT")
    pool.until("it runs", lambda: "began" in pool.run("tail", "1", check=False).stdout)
    pool.run("rm", "1")
    pool.until("it was removed", lambda: events(log, "009") >= 1)
    kept = pool.home.spool / "jobs"
    pool.until("it has left the slot", lambda: not list(pool.home.execute.glob("dir_*")))
    assert not list(kept.glob("*/*"))
    assert not list(log.parent.glob("*.sw-*")), "no halves of files either"


#: Speaks chirp with nothing but a shell: asks for one attribute, sets two, writes a log entry, and reads a file.
SPEAKER = """#!/bin/bash
read host port secret < $_CONDOR_CHIRP_CONFIG
exec 3<>/dev/tcp/$host/$port
ask() { printf '%s\\n' "$*" >&3; read -r answer <&3; }
ask cookie $secret; [ $answer = 0 ] || exit 1
ask set_job_attr Progress 42; [ $answer = 0 ] || exit 2
ask set_job_attr Owner '"other"'; [ $answer = -2 ] || exit 3
ask set_job_attr_delayed ChirpLast '"yes"'; [ $answer = 0 ] || exit 4
ask ulog half\\\\ way; [ $answer = 0 ] || exit 5
ask getfile notes; read -r text <&3; [ "$text" = "at the access point" ] || exit 6
ask get_job_attr Progress; read -r -n $answer text <&3; [ "$text" = 42 ] || exit 7
"""


def test_a_job_speaks_to_its_access_point(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    (pool.root / "job").mkdir()
    (pool.root / "job" / "notes").write_text("at the access point\n")
    log = submit(pool, SPEAKER, "want_io_proxy = true")
    pool.until("it has ended", lambda: events(log, "005") == 1)
    assert "return value 0" in log.read_text(), log.read_text()
    assert "\n008 (" in log.read_text() and "half way" in log.read_text()
    ad = history(pool)
    assert (ad["Progress"], ad["ChirpLast"]) == (42, "yes") and ad["Owner"] != "other"
    silent = submit(pool, SPEAKER)
    pool.until("it has ended", lambda: events(silent, "005") == 2)
    assert "return value 2" in silent.read_text()


#: Serves ``shelf://NAME``: files of the directory that it lies in.
PLUGIN = """#!/bin/sh
if [ "$1" = -classad ]; then
    printf 'MultipleFileSupport = true\\nPluginType = "FileTransfer"\\nSupportedMethods = "shelf"\\n'; exit
fi
while [ $# -gt 0 ]; do
    case $1 in -infile) in=$2 ;; -outfile) out=$2 ;; -upload) up=1 ;; esac; shift
done
local=$(grep -o 'LocalFileName = "[^"]*' "$in" | cut -d'"' -f2)
url=$(grep -o 'Url = "[^"]*' "$in" | cut -d'"' -f2)
far="$(dirname "$0")/shelf/${url#shelf://}"
if [ "$up" ]; then cp "$local" "$far"; else cp "$far" "$local"; fi || exit 1
printf '[ TransferSuccess = true; TransferUrl = "%s"; TransferTotalBytes = 1 ]\\n' "$url" > "$out"
"""


def test_inputs_and_results_that_are_urls(make_pool: Callable[[str], Pool], open_directory: Path) -> None:
    place = open_directory
    shelf, plugin = place / "shelf", place / "plugin"
    shelf.mkdir()
    shelf.chmod(0o777)
    (shelf / "book").write_text("from the shelf\n")
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    pool = make_pool(f"NUM_CPUS = 1\nFILETRANSFER_PLUGINS = {plugin}\n")
    pool.up()
    (place / "s.sub").write_text(
        "executable = /bin/sh\narguments = \"-c 'cat book > made; echo here > stays'\"\nlog = l\n"
        "should_transfer_files = yes\ntransfer_input_files = shelf://book\n"
        'transfer_output_remaps = "made = shelf://kept"\nqueue\n'
    )
    pool.run("submit", "s.sub", cwd=place)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=place)
    assert (shelf / "kept").read_text() == "from the shelf\n"
    assert (place / "stays").read_text() == "here\n" and not (place / "made").exists()
    epochs = ("history", "-epochs", "-forwards", "-type", "ALL")
    kinds = pool.run(*epochs, "-af", "EpochAdType", "RunInstanceID").stdout.split()
    assert kinds == ["SPAWN", "0", "INPUT", "0", "OUTPUT", "0", "EPOCH", "0"]
    name = pool.run("status", "-schedd", "-af", "Name").stdout.strip()
    remote = pool.run("history", "-name", name, "-transfer-history:i", "-af", "EpochAdType").stdout.split()
    assert remote == ["INPUT"]
    assert pool.run("history", "-name", name, "-epochs").stdout.splitlines()[1:], "a table"
    refused = pool.run("history", "-name", name, "-epochs", "-directory", check=False)
    assert refused.returncode != 0 and "-directory" in refused.stderr
    told = "InputPluginResultList[0].TransferUrl", "OutputPluginInvocations[0].PluginBasename"
    said = pool.run(*epochs, "-constraint", "TransferClass =!= undefined", "-af", *told).stdout.splitlines()
    assert said == ["shelf://book undefined", "undefined plugin"]
    assert pool.run("history", "-af", "InputPluginResultList").stdout.split() == ["undefined"], "not the job's"
    (stats,) = pool.root.glob("**/transfer_history")
    assert [line for line in stats.read_text().splitlines() if "TransferUrl" in line] == [
        'TransferUrl = "shelf://book"',
        'TransferUrl = "shelf://kept"',
    ]


def test_results_that_go_to_a_url_are_part_of_the_run(make_pool: Callable[[str], Pool], open_directory: Path) -> None:
    """HTCondor 25.14.1 with a plugin that took 12 s for the results of a job of 2 s: CompletionDate 15 s after
    JobCurrentStartExecutingDate and at TransferOutFinished, which is 12 s after TransferOutStarted;
    RemoteWallClockTime, CommittedTime, CumulativeSlotTime and ActivationDuration 15, ActivationExecutionDuration 2,
    ActivationTeardownDuration 13; "Started transferring output files" in the log when the transfer began."""
    place = open_directory
    (place / "shelf").mkdir()
    (place / "shelf").chmod(0o777)
    plugin, go = place / "plugin", place / "go"
    waits = f'if [ "$up" ]; then until [ -e {go} ]; do sleep 0.1; done; fi\n'
    plugin.write_text(PLUGIN.replace('if [ "$up" ]', f'{waits}if [ "$up" ]', 1))
    plugin.chmod(0o755)
    pool = make_pool(f"NUM_CPUS = 1\nFILETRANSFER_PLUGINS = {plugin}\n")
    pool.up()
    (place / "s.sub").write_text(
        "executable = /bin/sh\narguments = \"-c 'echo here > made'\"\nlog = l\nshould_transfer_files = yes\n"
        'transfer_output_remaps = "made = shelf://kept"\nqueue\n'
    )
    pool.run("submit", "s.sub", cwd=place)
    pool.until("the plugin waits", lambda: "Started transferring output files" in (place / "l").read_text())
    pool.until("the ad says so", lambda: pool.json("q")[0].get("TransferringOutput") is True)
    started = pool.json("q")[0]["TransferOutStarted"]
    pool.until("two seconds pass", lambda: time.time() >= started + 2)
    at = int(time.time())
    go.touch()
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=place)
    (ad,) = pool.json("history")
    assert ad["TransferOutStarted"] == started < at <= ad["TransferOutFinished"]
    assert ad["CompletionDate"] == ad["EnteredCurrentStatus"] >= at
    for name in ("RemoteWallClockTime", "CumulativeSlotTime", "ActivationTeardownDuration"):
        assert ad[name] >= at - started - 1, name
    parts = ad["ActivationExecutionDuration"] + ad["ActivationTeardownDuration"]
    assert 0 <= ad["ActivationDuration"] - parts <= 1, "each is whole seconds"
    assert (place / "l").read_text().count("transferring output files") == 2


#: What lay in the scratch directory of HTCondor's job with the same program and commands, before and after it, but for
#: ``.job.ad`` and ``.machine.ad``: those lie beside the scratch directory here.
MANIFEST_IN = "./in.txt ./lists/ ./lists/in ./program"
MANIFEST_OUT = (
    "./.hidden ./_condor_stderr ./_condor_stdout ./d/ ./d/l ./d/one ./d/sub/ ./d/sub/s ./dl "
    "./e/ ./in.txt ./link ./lists/ ./lists/environment ./lists/in ./lists/out ./pipe ./program"
)


def test_a_manifest_lists_what_htcondor_lists(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    (pool.root / "in.txt").write_text("in\n")
    program = (
        "#!/bin/sh\nmkdir d e d/sub; echo one > d/one; ln -s one d/l; ln -s d dl; ln -s /etc/passwd link; mkfifo pipe\n"
        "echo s > d/sub/s; echo h > .hidden\n"
    )
    lines = (
        f"transfer_input_files = {pool.root}/in.txt",
        "manifest_dir = lists",
        "transfer_output_files = .hidden",
        "environment = \"A=1 B='two words'\"",
    )
    log = submit(pool, program, *lines)
    pool.until("it has ended", lambda: events(log, "005") == 1)
    lists = log.parent / "lists"
    assert sorted((lists / "in").read_text().split()) == MANIFEST_IN.split()
    assert sorted((lists / "out").read_text().split()) == MANIFEST_OUT.split()
    environment = (lists / "environment").read_text()
    assert environment.startswith("A=1 ") and " B=two' 'words " in environment and "_SLOTWISE_FAMILY" not in environment

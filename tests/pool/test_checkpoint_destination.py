"""Checkpoints that jobs keep at a URL (``checkpoint_destination``), with the plugin that comes with us and others; what
becomes of them. Names, codes and words are HTCondor's.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slotwise.transfer import checkpoint_manifest

from tests.support.pool import Pool

BASE = "NUM_CPUS = 2\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\nMOUNT_UNDER_SCRATCH =\n"
#: Counts its starts in a file of a directory; a checkpoint at each but the last.
COUNTER = """#!/bin/sh
mkdir -p state
n=$(cat state/n 2>/dev/null || echo 0)
n=$((n + 1))
echo $n > state/n
echo "start $n"
while [ $n -eq {waits} ] && [ -e {block} ]; do touch {flag}; sleep 0.1; done
[ $n -lt {last} ] && exit 85
exit 0
"""
#: Sends and brings what local://DIRECTORY/... has; fails as it is told by a file beside it.
PLUGIN = """#!/bin/bash
if [ "$1" = -classad ]; then printf 'PluginType = "FileTransfer"\\nSupportedMethods = "local"\\n'; exit; fi
up=
while [ $# -gt 0 ]; do case $1 in -infile) in=$2 ;; -outfile) out=$2 ;; -upload) up=1 ;; esac; shift; done
status=0
: > $out
named() { grep -o "$1 = \\"[^\\"]*" $in | cut -d'"' -f2; }
paste -d' ' <(named Url) <(named LocalFileName) > list.tmp
while read -r url local; do
  far=${url#local://}
  how=$(cat {place}/fails 2>/dev/null)
  ok=true
  if [ -n "$up" ]; then
    case $how in
      up*) ok=false; status=${how#up} ;;
      silent) rm -f list.tmp $out; exit 3 ;;
      *) mkdir -p "${far%/*}"; cp "$local" "$far" ;;
    esac
  else
    cp "$far" "$local" || ok=false
    [ "$how" = corrupt ] && echo damaged > "$local"
    [ "$how" = missing ] && rm "$local"
  fi
  said="TransferSuccess = $ok; TransferError = \\"as told\\"; TransferTotalBytes = 1"
  echo "[ TransferUrl = \\"$url\\"; $said ]" >> $out
done < list.tmp
[ "$how" = manifest ] && [ -z "$up" ] && echo damaged > $(ls _condor_checkpoint_MANIFEST.*)
rm -f list.tmp
exit $status
"""


@pytest.fixture
def place(open_directory: Path) -> Path:
    """A directory that jobs of other users reach, with a plugin."""
    open_directory.chmod(0o777)
    (open_directory / "local.sh").write_text(PLUGIN.replace("{place}", str(open_directory)))
    (open_directory / "local.sh").chmod(0o755)
    return open_directory


def map_file(place: Path, *lines: str) -> str:
    """The configuration for a map of destinations."""
    path = place / "map"
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o644)
    return f"CHECKPOINT_DESTINATION_MAPFILE = {path}\n"


def submit(pool: Pool, place: Path, *lines: str, waits: int = 0, last: int = 3) -> str:
    """Queue a job that counts; its id."""
    program = COUNTER.format(block=place / "block", flag=place / "flag", waits=waits, last=last)
    (place / "program").write_text(program)
    (place / "program").chmod(0o755)
    head = ["executable = program", "log = log", "output = out", "error = err", "should_transfer_files = yes"]
    head += ["checkpoint_exit_code = 85", "transfer_checkpoint_files = state", "transfer_output_files = state"]
    (place / "job.sub").write_text("\n".join([*head, *lines, "queue"]) + "\n")
    return pool.run("submit", "-terse", "job.sub", cwd=place).stdout.split()[0]


def has(place: Path, event: str) -> Callable[[], bool]:
    """Whether the log has an event."""
    return lambda: (place / "log").exists() and f"\n{event} (" in "\n" + (place / "log").read_text()


def ad_of(pool: Pool, job: str) -> dict[str, Any]:
    """The ad of a job in the queue."""
    found: dict[str, Any] = pool.json("q", job, "-json")[0]
    return found


def stored(place: Path) -> list[str]:
    """The files of checkpoints, without the job's part of their names."""
    root = place / "store"
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return ["/".join(path.parts[1:]) for path in files]


def test_checkpoints_in_a_directory_are_restored_and_deleted(
    make_pool: Callable[[str], Pool], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"* file://{place}/store cleanup_locally_mounted_checkpoint,-prefix,\\0,-path,{place}/store"
    pool = make_pool(BASE + map_file(place, line))
    pool.up()
    (place / "block").touch()
    job = submit(pool, place, f"checkpoint_destination = file://{place}/store", waits=4, last=5)
    pool.until("it has three checkpoints", (place / "flag").exists)
    ad = ad_of(pool, job)
    assert ad["CheckpointNumber"] == 2 and ad["JobLastCheckpointTime"] > 0
    # The one before the last is kept, too.
    kept = ["_condor_stderr", "_condor_stdout", "state/n"]
    pool.until("the first is deleted", lambda: stored(place) == [f"{n}/{f}" for n in ("0001", "0002") for f in kept])
    (top,) = (place / "store").iterdir()
    assert top.name == ad["GlobalJobId"].replace("#", "_")
    manifests = pool.home.spool / "checkpoints" / job.replace(".", "/")
    names = [checkpoint_manifest.name_of(n) for n in (1, 2)]
    pool.until("and its manifest", lambda: sorted(path.name for path in manifests.glob("_*")) == names)
    monkeypatch.chdir(top / "0002")
    checkpoint_manifest.check_files(str(manifests / checkpoint_manifest.name_of(2)))
    pool.run("vacate-job", job)
    pool.until("it was evicted", has(place, "004"))
    (place / "block").unlink()
    pool.until("it has ended", has(place, "005"))
    assert (place / "out").read_text() == "".join(f"start {n}\n" for n in (1, 2, 3, 4, 5))
    assert (place / "state" / "n").read_text() == "5\n"
    pool.until("all are deleted", lambda: not list((place / "store").iterdir()))
    pool.until("nothing is known of them", lambda: not list((pool.home.spool / "checkpoints").iterdir()))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("corrupt", "did not have expected checksum"),
        ("missing", "was not brought"),
        ("manifest", "Invalid MANIFEST file, aborting."),
    ],
)
def test_a_checkpoint_that_is_not_what_was_sent(
    make_pool: Callable[[str], Pool], place: Path, how: str, words: str
) -> None:
    pool = make_pool(BASE)
    pool.up()
    (place / "block").touch()
    lines = f"checkpoint_destination = local://{place}/store/", "transfer_plugins = local=local.sh"
    job = submit(pool, place, *lines, waits=3, last=4)
    pool.until("it has two checkpoints", (place / "flag").exists)
    (place / "fails").write_text(how)
    (place / "block").unlink()
    pool.run("vacate-job", job)
    if how == "missing":  # as any input that cannot be had
        pool.until("it is on hold", has(place, "012"))
        assert words in (place / "log").read_text()
        (place / "fails").unlink()
        pool.run("release", job)
    else:
        pool.until("its shadow has failed", has(place, "007"))
        assert words in (place / "log").read_text()
        (place / "fails").unlink()
    pool.until("it has ended", has(place, "005"))
    assert (place / "out").read_text() == "start 1\nstart 2\nstart 3\nstart 4\n"
    assert (place / "state" / "n").read_text() == "4\n"
    (ended,) = pool.json("history", job, "-json")
    # From the same once it could be had, or from the one before.
    assert ended["CheckpointNumber"] == (2 if how == "missing" else 3)


@pytest.mark.parametrize(("how", "held"), [("up1", True), ("up0", False), ("silent", False)])
def test_a_checkpoint_that_does_not_arrive(make_pool: Callable[[str], Pool], place: Path, how: str, held: bool) -> None:
    pool = make_pool(BASE)
    pool.up()
    (place / "fails").write_text(how)
    lines = f"checkpoint_destination = local://{place}/store", "transfer_plugins = local=local.sh"
    job = submit(pool, place, *lines, last=3)
    if held:
        pool.until("it is on hold", has(place, "012"))
        ad = ad_of(pool, job)
        assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (36, -1)
        assert "Starter failed to upload checkpoint" in ad["HoldReason"] and "as told" in ad["HoldReason"]
        pool.run("rm", job)
    else:
        pool.until("it has ended", has(place, "005"))
        assert (place / "out").read_text() == "start 1\nstart 2\nstart 3\n"
        (ended,) = pool.json("history", job, "-json")
        assert ended["CheckpointNumber"] == 1 and ended.get("CommittedTime", 0) == 0


def test_nobody_deletes_what_is_not_the_owners(make_pool: Callable[[str], Pool], place: Path) -> None:
    """The program runs as the account of the job; a manifest cannot lead out of its checkpoint."""
    if os.geteuid() != 0:
        pytest.skip("wants root")
    log = place / "calls"
    place.chmod(0o1777)
    (place / "store").mkdir()
    (place / "store").chmod(0o777)
    (place / "tools").mkdir(mode=0o755)
    tool = place / "tools" / "tool"
    tool.write_text(f'#!/bin/sh\necho "$(id -u) $2 $4" >> {log}\n[ -r "$6" ] || exit 1\n')
    tool.chmod(0o755)
    log.touch()
    log.chmod(0o666)
    pool = make_pool(BASE + map_file(place, f"* local:// {tool}"))
    pool.up()
    lines = f"checkpoint_destination = local://{place}/store", "transfer_plugins = local=local.sh"
    submit(pool, place, *lines, last=2)
    pool.until("it has ended", has(place, "005"))
    pool.until("its files were deleted", lambda: len(log.read_text().splitlines()) >= 3)
    users = {line.split()[0] for line in log.read_text().splitlines()}
    assert users == {str(pwd.getpwnam("nobody").pw_uid)}
    names = sorted(line.split()[2] for line in log.read_text().splitlines())
    assert names == ["_condor_stderr", "_condor_stdout", "state/n"]


@pytest.mark.parametrize(("knob", "leaves"), [("true", True), ("false", False)])
def test_a_job_leaves_with_its_checkpoint(
    make_pool: Callable[[str], Pool], place: Path, knob: str, leaves: bool
) -> None:
    """CLAIM_WORKLIFE has passed: HTCondor's test_check_reactivate_after_checkpoint."""
    pool = make_pool(f"{BASE}CLAIM_WORKLIFE = 0\nCHECK_REACTIVATE_AFTER_CHECKPOINT = {knob}\n")
    pool.up()
    submit(pool, place, last=2)
    pool.until("it has ended", has(place, "005"))
    assert (place / "out").read_text() == "start 1\nstart 2\n"
    words = "Rescheduling self-checkpoint job after checkpoint upload because reactivating the claim would have failed."
    assert (words in (place / "log").read_text()) is leaves


def test_checkpoints_are_deleted_by_hand(make_pool: Callable[[str], Pool], place: Path) -> None:
    """``condor_manifest deleteFilesStoredAt``, as HTCondor's schedd calls it; never as root."""
    line = f"* x://store cleanup_locally_mounted_checkpoint,-prefix,\\0,-path,{place}/store"
    pool = make_pool(BASE + map_file(place, line))
    spool = place / "spool"
    spool.mkdir()
    (spool / ".job.ad").touch()
    for number, kind in ((0, "FAILURE"), (1, "MANIFEST")):
        files = place / "store" / "job_1" / f"{number:04d}"
        files.mkdir(parents=True)
        (files / "a").write_text("x")
        name = checkpoint_manifest.name_of(number)
        text = checkpoint_manifest.text_of([("00", "a"), ("00", "gone")], name)
        (spool / name.replace("MANIFEST", kind)).write_bytes(text)
    launcher = str(Path(sys.executable).with_name("slotwise"))
    words = [
        "condor_manifest",
        "deleteFilesStoredAt",
        "x://store/job_1",
        f"{spool}/_condor_checkpoint_MANIFEST",
        "0",
        "1",
    ]
    done = subprocess.run(words, executable=launcher, env=pool.env, capture_output=True, text=True, check=False)
    if os.geteuid() == 0:
        assert done.returncode == 1 and "nothing is deleted as root" in done.stderr
        assert (place / "store" / "job_1" / "0001" / "a").exists()
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert not spool.exists() and list((place / "store").iterdir()) == []

"""Hooks of the starter and the job wrapper, with real programs.

What HTCondor 25.14 gives its hooks was recorded with the same programs and jobs; the expectations are its answers.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.ids import job_of_run
from slotwise.wire.gen import schedd_pb2

from tests.host.test_plugins import with_shelf
from tests.support import host
from tests.support.ads import number_of
from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD
EVICTED, NOT_STARTED = schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.NOT_STARTED


def program(bench: StarterBench, name: str, script: str) -> str:
    """A program that every account may run."""
    path = bench.root / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def configured(bench: StarterBench, **knobs: Any) -> None:
    """The starter with other knobs."""
    bench.configure(**knobs)
    await bench.kill_9()
    await bench.start()


async def test_a_hook_hears_of_each_update_of_the_job() -> None:
    async with starter_bench() as bench:
        heard = bench.root / "heard"
        heard.touch()
        heard.chmod(0o666)
        bench.root.chmod(0o755)
        tell = program(bench, "tell", f'grep -E "^(JobPid|ImageSize) =" >> {heard}; echo . >> {heard}')
        await configured(
            bench,
            STARTER_DEFAULT_JOB_HOOK_KEYWORD="SITE",
            SITE_HOOK_UPDATE_JOB_INFO=tell,
            STARTER_INITIAL_UPDATE_INTERVAL=1,
            STARTER_UPDATE_INTERVAL=1,
        )
        run = bench.submit("/bin/sleep", "100")
        pid = (await bench.running(run)).pid
        await bench.eventually(lambda: heard.read_text().count(".") >= 2, "it hears again and again")
        assert f"JobPid = {pid}" in heard.read_text().splitlines()
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)


async def test_a_hook_prepares_the_job_and_another_hears_of_its_end() -> None:
    async with starter_bench() as bench:
        last = 'cat > ad; echo "HookSaw = \\"$1\\""; grep -q ^RemoteUserCpu ad && echo "Full = true"'
        leave = program(bench, "leave", last)
        says = 'echo "HookStatusMessage = \\"all set\\""; '
        prepare_script = says + 'grep -c Owner > seen; echo "Arguments = \\"-c \'cat seen; exit 3\'\\""'
        prepare = program(bench, "prepare", prepare_script)
        await configured(
            bench,
            STARTER_DEFAULT_JOB_HOOK_KEYWORD="SITE",
            SITE_HOOK_PREPARE_JOB=prepare,
            SITE_HOOK_JOB_EXIT=leave,
        )
        run = bench.submit("/bin/sh", "-c", "exit 9")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 3), ended
        assert bench.output(run) == "1\n"
        assert bench.shadow.runs[run].end_ad.eval("HookSaw") == "exit"
        assert bench.shadow.runs[run].end_ad.eval("Full") is True
        assert bench.shadow.runs[run].asked == ["message"]


@pytest.mark.parametrize(
    ("script", "how", "code", "subcode"),
    [
        ("exit 7", HELD, 19, 7),
        ("echo 'HookStatusCode = 250'; echo 'HookStatusMessage = \"no licence\"'", HELD, 19, 250),
        ("echo 'HookStatusCode = 300'", EVICTED, 1007, 300),
        ("kill -9 $$", EVICTED, 1007, -9),
    ],
)
async def test_a_hook_that_fails_holds_the_job_or_sends_it_back(script: str, how: int, code: int, subcode: int) -> None:
    async with starter_bench() as bench:
        knobs = {"STARTER_JOB_HOOK_KEYWORD": "site", "SITE_HOOK_PREPARE_JOB": program(bench, "prepare", script)}
        await configured(bench, **knobs)
        run = bench.submit("/bin/true")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (how, code, subcode)
        assert ended.reason.startswith("PREPARE_JOB (prepare) failed (")
        assert ("no licence" in ended.reason) == ("licence" in script)
        await bench.clean()


async def test_the_jobs_keyword_counts_where_it_has_hooks() -> None:
    async with starter_bench() as bench:
        await configured(bench, OTHER_HOOK_PREPARE_JOB=program(bench, "prepare", "exit 1"))
        ads: tuple[dict[str, Any], ...] = ({}, {"HookKeyword": "other"}, {"HookKeyword": "x"})
        plain, wants, strange = (bench.submit("/bin/true", **ad) for ad in ads)
        assert [(await bench.ended(run)).how for run in (plain, wants, strange)] == [EXITED, HELD, EXITED]


async def test_a_wrapper_runs_the_job_and_may_say_why_it_cannot() -> None:
    async with starter_bench() as bench:
        await configured(bench, USER_JOB_WRAPPER=program(bench, "wrap", 'echo wrapped; exec "$@"'))
        run = bench.submit("/bin/echo", "a b")
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == "wrapped\na b\n"
        failing = program(bench, "fails", 'echo no such thing > "$_CONDOR_WRAPPER_ERROR_FILE"; exit 1')
        await configured(bench, USER_JOB_WRAPPER=failing)
        run = bench.submit("/bin/true")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1007)
        assert ended.reason == "The job wrapper failed to execute the job: no such thing"
        await configured(bench, USER_JOB_WRAPPER=str(Path("/nowhere/wrapper")))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert ended.how == NOT_STARTED and "/nowhere/wrapper cannot be run" in ended.reason


async def test_a_wrapper_without_interpreter_is_the_machines_fault_and_its_status_the_jobs() -> None:
    async with starter_bench() as bench:
        broken = Path(program(bench, "broken", ""))
        broken.write_text('#!/nowhere/interpreter\nexec "$@"\n')
        await configured(bench, USER_JOB_WRAPPER=str(broken))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert (ended.how, ended.reason_code) == (NOT_STARTED, 1007)
        assert ended.reason.startswith(f"The job wrapper {broken} cannot be run: ")
        assert "/nowhere/interpreter" in ended.reason
        await configured(bench, USER_JOB_WRAPPER=program(bench, "three", "exit 3"))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert (ended.how, ended.code) == (EXITED, 3), "as in HTCondor, which cannot tell it from the job's"


async def test_a_hook_that_never_stops_talking_is_heard_only_so_long() -> None:
    async with starter_bench() as bench:
        assert bench.process is not None
        script = "echo 'HookStatusCode = 250'; head -c 300000000 /dev/zero"
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="site", SITE_HOOK_PREPARE_JOB=program(bench, "talk", script))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 19, 250)
        status = Path(f"/proc/{bench.process.pid}/status").read_text()
        peak_kib = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert peak_kib < 200_000


#: Leaves what a hook is given in the directory ``seen`` of the bench, as BEFORE.ad, BEFORE.env, ...
NOTE = """
d={seen}/$(basename "$0"); cat > $d.ad; env > $d.env; printf '%s|' "$@" > $d.args; ls -A > $d.ls
"""


def note(bench: StarterBench, name: str, script: str = "") -> str:
    """A hook that notes what it is given, and does ``script``."""
    seen = bench.root / "seen"
    seen.mkdir(exist_ok=True)
    seen.chmod(0o777)
    return program(bench, name, NOTE.format(seen=seen) + script)


def seen(bench: StarterBench, name: str) -> str:
    return (bench.root / "seen" / name).read_text()


def given(bench: StarterBench, name: str) -> ClassAd:
    """The ad that a hook has read."""
    return next(iter(parse_ads(seen(bench, f"{name}.ad"))))


def environment(bench: StarterBench, name: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in seen(bench, f"{name}.env").splitlines())
    return {key: value for key, _, value in pairs}


async def test_the_hook_before_the_transfer_sees_no_file_and_changes_the_job() -> None:
    async with starter_bench() as bench:
        said = """
echo 'Environment = "FROM_BEFORE=yes"'
echo 'BeforeSaid = 1 + 1'
echo 'HookStatusMessage = "all is well"'
echo 'this is not an attribute'
"""
        await configured(
            bench,
            STARTER_DEFAULT_JOB_HOOK_KEYWORD="S",
            S_HOOK_PREPARE_JOB_BEFORE_TRANSFER=note(bench, "before", said),
            S_HOOK_PREPARE_JOB=note(bench, "prepare"),
            S_HOOK_PREPARE_JOB_ARGS="a 'b c'",
        )
        run = bench.submit(
            "/bin/sh", "-c", "cat in1; echo $FROM_BEFORE", inputs={"in1": b"one\n"}, Environment="FROM_JOB=1"
        )
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == "one\nyes\n"
        assert (seen(bench, "before.ls"), seen(bench, "prepare.ls")) == ("", "in1\n")
        assert given(bench, "before").eval("Environment") == "FROM_JOB=1"
        assert (given(bench, "prepare").eval("Environment"), given(bench, "prepare").eval("BeforeSaid")) == (
            "FROM_BEFORE=yes",
            2,
        )
        assert seen(bench, "before.args") == seen(bench, "prepare.args") == "a|b c|"
        env = environment(bench, "before")
        assert env["BATCH_SYSTEM"] == "HTCondor" and env["_CONDOR_SLOT"] == "slot1_1"
        assert env["_CONDOR_JOB_IWD"] == env["_CONDOR_SCRATCH_DIR"] == env["TMPDIR"] == env["PWD"]
        assert env["_CONDOR_JOB_PIDS"] == "" and "FROM_JOB" not in env
        names = [line.partition(" ")[0] for line in seen(bench, "before.ad").splitlines()]
        assert names == sorted(names, key=str.upper) and "Owner" in names


async def test_ads_lie_ready_for_the_hook_before_the_transfer() -> None:
    async with starter_bench() as bench:
        script = 'grep -q ^Owner "$_CONDOR_JOB_AD" && grep -q ^Name "$_CONDOR_MACHINE_AD" && echo Ready = true'
        hook = program(bench, "before", script)
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="S", S_HOOK_PREPARE_JOB_BEFORE_TRANSFER=hook)
        run = bench.submit("/bin/sh", "-c", 'grep -c ^Ready "$_CONDOR_JOB_AD"')
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == "1\n"


async def test_urls_come_as_the_hook_before_the_transfer_leaves_them_and_files_as_the_job_wants_them() -> None:
    async with starter_bench() as bench:
        await with_shelf(bench)
        plugins = f"{bench.root / 'plugin'}"
        hook = program(bench, "before", "echo 'TransferInput = \"other, shelf://book\"'")
        knobs = {"STARTER_JOB_HOOK_KEYWORD": "S", "S_HOOK_PREPARE_JOB_BEFORE_TRANSFER": hook}
        await configured(bench, FILETRANSFER_PLUGINS=plugins, **knobs)
        run = bench.submit("/bin/sh", "-c", "ls; cat book", TransferInput="plain", inputs={"plain": b"1"})
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run).split()[-4:] == ["plain", "from", "the", "shelf"]
        assert "has changed TransferInput: that counts for URLs only, the access point sends plain" in bench.log()


async def test_a_failing_hook_before_the_transfer_keeps_the_files_away() -> None:
    async with starter_bench() as bench:
        hook = program(bench, "before", "echo HookStatusCode = 250; echo 'HookStatusMessage = \"no licence\"'")
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="S", S_HOOK_PREPARE_JOB_BEFORE_TRANSFER=hook)
        run = bench.submit("/bin/true", inputs={"in1": b"one"})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 19, 250)
        assert ended.reason == "PREPARE_JOB_BEFORE_TRANSFER (before) failed (reported status 250): no licence"
        assert not bench.shadow.runs[run].asked_for_inputs
        await bench.clean()


@pytest.mark.parametrize(
    ("script", "how", "facts", "env"),
    [
        (
            "sleep 0.3; exit 5",
            "exit",
            {"ExitBySignal": False, "ExitCode": 5},
            {"_CONDOR_MAINJOB_EXIT_CODE": "5"},
        ),
        (
            "sleep 0.3; kill -9 $$",
            "exit",
            {"ExitBySignal": True, "ExitSignal": 9, "ExitReason": "died on signal 9 (Killed)"},
            {"_CONDOR_MAINJOB_EXIT_SIGNAL": "9"},
        ),
        (
            "exec sleep 60",
            "evict",
            {
                "ExitBySignal": True, "ExitSignal": 15, "ExitReason": "died on signal 15 (Terminated)",
                "VacateReason": "owner is back", "VacateReasonCode": 1011, "VacateReasonSubCode": 0,
            },
            {"_CONDOR_MAINJOB_EXIT_SIGNAL": "15"},
        ),
    ],
    ids=["code", "signal", "evicted"],
)  # fmt: skip
async def test_the_exit_hook_is_told_how_the_job_ended(
    script: str, how: str, facts: dict[str, Any], env: dict[str, str]
) -> None:
    async with starter_bench() as bench:
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="S", S_HOOK_JOB_EXIT=note(bench, "exit"))
        began = int(time.time())
        run = bench.submit("/bin/sh", "-c", script, ExitStatus=0, JobStartDate=1)
        pid = (await bench.running(run)).pid
        if how == "evict":
            assert bench.startd is not None
            bench.startd.command(
                run, kill={"fast": False, "reason": "owner is back", "reason_code": 1011, "vacate_s": 9}
            )
        await bench.ended(run)
        ad = given(bench, "exit")
        assert {name: ad.eval(name) for name in facts} == facts
        assert ad.eval("JobState") == "Exited" and ad.eval("Owner") == "ann" and ad.eval("JobPid") == pid
        assert began <= number_of(ad, "JobStartDate") <= time.time()
        if how == "exit":
            # It counts from the end of the spawn, a moment after the job's own sleep has begun.
            assert 0.2 <= number_of(ad, "JobDuration") < 60
            assert "VacateReason" not in ad
        assert seen(bench, "exit.args") == f"{how}|"
        assert env.items() <= environment(bench, "exit").items()


async def test_what_hooks_write_to_standard_error_is_in_the_log_line_by_line() -> None:
    async with starter_bench() as bench:
        lines = "printf 'first\\nlook: \\033[31mred\\007\\rforged\\n' >&2; seq 1 5000 >&2; echo Said = 1"
        await configured(
            bench,
            STARTER_JOB_HOOK_KEYWORD="S",
            S_HOOK_PREPARE_JOB=program(bench, "prepare", lines),
            S_HOOK_JOB_EXIT=program(bench, "leave", "echo bye >&2; exit 3"),
        )
        run = bench.submit("/bin/true")
        assert (await bench.ended(run)).how == EXITED
        log = bench.log()
        start = f"{job_of_run(run)}: PREPARE_JOB (prepare, run {run}): "
        said = [line.partition(start)[2] for line in log.splitlines() if start in line]
        assert said[:3] == ["first", r"look: \x1b[31mred\x07\rforged", "1"]
        assert len(said) == 101 and said[-1] == "... and more on standard error"
        assert f"{job_of_run(run)}: JOB_EXIT (leave, run {run}): bye" in log


async def test_a_hook_that_leaves_a_process_behind_is_not_waited_for() -> None:
    async with starter_bench() as bench:
        hook = program(bench, "prepare", "sleep 300 & echo Said = 1")
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="S", S_HOOK_PREPARE_JOB=hook)
        run = bench.submit("/bin/sh", "-c", 'grep ^Said "$_CONDOR_JOB_AD"')
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == "Said = 1\n"


def world_writable(hook: Path) -> None:
    hook.chmod(0o777)


def in_an_open_directory(hook: Path) -> None:
    hook.parent.chmod(0o777)


def gone(hook: Path) -> None:
    hook.unlink()


def no_program(hook: Path) -> None:
    hook.chmod(0o644)


def of_the_jobs_account(hook: Path) -> None:
    os.chown(hook, 65534, 0)


@pytest.mark.parametrize("knob", ["PREPARE_JOB", "JOB_EXIT"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (world_writable, "is world-writable"),
        (in_an_open_directory, "is in a world-writable directory"),
        (gone, "cannot be looked at: No such file or directory"),
        (no_program, "is not executable"),
        pytest.param(
            of_the_jobs_account, "may be written by the account that the job runs as",
            marks=host.needs(host.root),
        ),
    ],
)  # fmt: skip
async def test_a_hook_that_others_may_replace_lets_no_job_start(spoil: Any, words: str, knob: str) -> None:
    async with starter_bench() as bench:
        hooks = bench.root / "hooks"
        hooks.mkdir()
        path = Path(program(bench, "hooks/prog", "exit 0"))
        await configured(bench, **{f"SITE_HOOK_{knob}": path})
        spoil(path)
        run = bench.submit("/bin/true", HookKeyword="site")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (NOT_STARTED, 1007), ended
        assert words in ended.reason and f"SITE_HOOK_{knob} ({path})" in ended.reason
        assert f"run {run}: SITE_HOOK_{knob} ({path}) {words}" in bench.log()
        assert (await bench.ended(bench.submit("/bin/true"))).how == EXITED, "jobs without the hook start"
        await bench.clean()

"""What a job is given and what it gives back, under a real starter process; also one that is not root."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.ads import number_of
from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
HELD = schedd_pb2.RunEnded.HELD
SH = "/bin/sh"


async def finished(bench: StarterBench, script: str, **how: Any) -> str:
    """Run a shell script to its end with exit 0; returns the run id."""
    run = bench.submit(SH, "-c", script, **how)
    ended = await bench.ended(run)
    assert (ended.how, ended.code) == (EXITED, 0), (ended, bench.shadow.runs[run].outputs.get("_condor_stderr"))
    return run


async def test_new_and_changed_top_level_files_go_back() -> None:
    async with starter_bench() as bench:
        inputs: dict[str, Any] = {"same": b"1", "changed": b"1", "deep/in": b"2"}
        script = "echo 22 > changed; echo 3 > new; mkdir dir; echo 4 > dir/not; ln -s new link; cat deep/in"
        run = await finished(bench, script, inputs=inputs)
        outputs = bench.shadow.runs[run].outputs
        assert set(outputs) == {"_condor_stdout", "_condor_stderr", "changed", "new", "link"}
        assert (outputs["changed"], outputs["_condor_stdout"]) == (b"22\n", b"2")


async def test_a_run_that_is_ended_before_its_shadow_answers_says_so_when_it_does() -> None:
    async with starter_bench() as bench:
        assert bench.startd is not None
        bench.shadow.open.clear()
        run = bench.submit(SH, "-c", "exit 0")
        await bench.eventually(lambda: run in bench.shadow.greeted, "it says hello")
        bench.startd.command(run, kill={"reason_code": 1010, "reason": "the machine drains"})
        await bench.gone(run)
        bench.shadow.open.set()
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (schedd_pb2.RunEnded.EVICTED, 1010)
        assert bench.shadow.runs[run].started is None


async def test_listed_outputs_and_directories() -> None:
    async with starter_bench() as bench:
        script = "mkdir -p a/b c; echo 1 > a/b/f; echo 2 > a/g; echo 3 > c/h; echo 4 > plain; echo 5 > unlisted"
        listed = "a, c/, plain"
        run = await finished(bench, script, TransferOutput=listed)
        outputs = bench.shadow.runs[run].outputs
        names = set(outputs) - {"_condor_stdout", "_condor_stderr", "a", "a/b"}
        assert names == {"a/b/f", "a/g", "h", "plain"}


async def test_relative_paths_are_kept_on_request() -> None:
    async with starter_bench() as bench:
        script = "mkdir -p a/b; echo 1 > a/b/f"
        flat = await finished(bench, script, TransferOutput="a/b/f")
        kept = await finished(bench, script, TransferOutput="a/b/f", PreserveRelativePaths=True)
        assert bench.output(flat, "f") == bench.output(kept, "a/b/f") == "1\n"


async def test_a_missing_output_holds_the_job() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "exit 0", TransferOutput="nowhere")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, 2)
        assert "nowhere: (errno 2) No such file or directory" in ended.reason


async def test_what_is_there_goes_back_beside_an_output_that_is_missing() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "echo why; echo 1 > there", TransferOutput="nowhere, there")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, 2)
        assert (bench.output(run), bench.output(run, "there")) == ("why\n", "1\n")


async def test_a_slash_means_nothing_where_relative_paths_are_kept() -> None:
    async with starter_bench() as bench:
        kept = await finished(bench, "mkdir -p a/b; echo 1 > a/b/f", TransferOutput="a/b/", PreserveRelativePaths=True)
        assert bench.output(kept, "a/b/f") == "1\n"


async def test_an_input_that_cannot_be_written_holds_the_job_and_nothing_stays_open() -> None:
    async with starter_bench() as bench:
        assert bench.process is not None
        resource.prlimit(bench.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        bench.shadow.completes_inputs = False
        run = bench.submit(SH, "-c", "exit 0", inputs={"big": bytes(3 << 20)})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 13, errno.EFBIG)
        await bench.gone(run)
        await bench.clean()
        opened = [str(link.readlink()) for link in Path(f"/proc/{bench.process.pid}/fd").iterdir() if link.is_symlink()]
        assert not [name for name in opened if name.startswith(f"{bench.execute}/dir_")]


async def test_too_much_output_holds_the_job() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "dd if=/dev/zero of=big bs=1M count=3 2>/dev/null", MaxTransferOutputMB=2)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (HELD, 33)


async def test_large_files_in_pieces_both_ways() -> None:
    async with starter_bench() as bench:
        data = os.urandom(3_000_001)
        run = await finished(bench, "cat in in > out", inputs={"in": data}, TransferOutput="out")
        assert bench.shadow.runs[run].outputs["out"] == data + data


async def test_a_link_reaches_nothing_that_the_job_may_not_read(root: None) -> None:
    async with starter_bench() as bench:
        secret = bench.root / "secret"
        secret.write_text("of the group root")
        secret.chmod(0o640)
        for target in ("/etc/shadow", str(secret)):
            run = bench.submit(SH, "-c", f"ln -s {target} stolen", TransferOutput="stolen")
            ended = await bench.ended(run)
            assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, 13)
            assert "stolen" not in bench.shadow.runs[run].outputs


async def test_an_input_name_cannot_leave_the_scratch_directory() -> None:
    async with starter_bench() as bench:
        for name in ("../escape", "d/" * 1500 + "escape"):
            run = bench.submit(SH, "-c", "exit 0", inputs={name: b"x"})
            ended = await bench.ended(run)
            assert (ended.how, ended.reason_code) == (HELD, 13)
        assert not list(bench.execute.glob("*/escape"))


async def test_the_transferred_program_runs_under_its_own_name() -> None:
    async with starter_bench() as bench:
        program = b'#!/bin/sh\necho $(basename $0) "$1" "$2"; cat\n'
        run = bench.submit(
            "/home/ann/prog.sh", "a b", "c'd",
            inputs={"prog.sh": (program, 0o644), "data.in": b"from stdin"},
            TransferExecutable=True, In="files/data.in",
        )  # fmt: skip
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        assert bench.output(run) == "prog.sh a b c'd\nfrom stdin"
        assert "prog.sh" not in bench.shadow.runs[run].outputs


async def test_streams_that_are_not_transferred_stay_at_the_execution_point() -> None:
    async with starter_bench() as bench:
        script = "echo out; echo err >&2; cat keep.txt > seen; echo 1 > new"
        run = await finished(bench, script, Out="/elsewhere/keep.txt", TransferOut=False, Err="e", TransferErr=True)
        outputs = bench.shadow.runs[run].outputs
        assert outputs == {"_condor_stderr": b"err\n", "seen": b"out\n", "new": b"1\n"}
        listed = {"TransferOutput": "keep.txt, new"}
        run = await finished(bench, script, Out="keep.txt", TransferOut=False, Err="e", TransferErr=False, **listed)
        assert bench.shadow.runs[run].outputs == {"keep.txt": b"out\n", "new": b"1\n"}
        run = await finished(bench, script, Out="keep.txt", TransferOut=False, Err="keep.txt")
        assert bench.shadow.runs[run].outputs == {"seen": b"out\nerr\n", "new": b"1\n"}


async def test_output_and_error_in_one_file() -> None:
    async with starter_bench() as bench:
        run = await finished(bench, "echo 1; echo 2 >&2; echo 3", Out="both", Err="both")
        assert bench.output(run) == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("ad", "code", "subcode", "words"),
    [
        ({"Cmd": "/no/such/program"}, 6, 2, "Failed to execute '/no/such/program'"),
        ({"Cmd": "/etc/passwd"}, 6, 13, "(errno=13: 'Permission denied')"),
        ({"In": "absent"}, 8, 2, "Failed to open 'absent' as standard input"),
        ({"ShouldTransferFiles": "NO", "Iwd": "/no/dir"}, 14, 2, "initial working directory /no/dir"),
        ({"ShouldTransferFiles": "NO", "Iwd": "/", "Out": "/no/dir/out"}, 7, 2, "as standard output"),
        ({"Arguments": "'open"}, 6, 22, "unbalanced"),
    ],
)
async def test_jobs_that_cannot_start_are_held(ad: dict[str, Any], code: int, subcode: int, words: str) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/true", **ad)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, code, subcode)
        assert words in ended.reason
        assert (await bench.gone(run)).how == "held"
        await bench.clean()


@pytest.mark.parametrize("line", ["#!/no/such/shell -e", "#! \t/no/such/shell"])
async def test_a_script_whose_interpreter_is_missing_says_so(line: str) -> None:
    async with starter_bench() as bench:
        script = bench.root / "script"
        script.write_text(f"{line}\necho here\n")
        script.chmod(0o755)
        ended = await bench.ended(bench.submit(str(script)))
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 6, 2)
        why = "invalid interpreter (/no/such/shell) specified on first line of script"
        assert ended.reason.endswith(f": {why} (errno=2: 'No such file or directory')")


async def test_outputs_only_on_success() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "echo x > file; echo said; exit 1", WhenToTransferOutput="ON_SUCCESS")
        await bench.ended(run)
        assert bench.shadow.runs[run].outputs == {"_condor_stdout": b"said\n", "_condor_stderr": b""}


async def test_a_shared_file_system_moves_no_files(root: None) -> None:
    async with starter_bench() as bench:
        shared = bench.root / "shared"
        shared.mkdir(mode=0o777)
        shared.chmod(0o777)
        run = await finished(
            bench, "pwd; echo $_CONDOR_SCRATCH_DIR; touch here", Iwd=str(shared), ShouldTransferFiles="NO"
        )
        assert bench.shadow.runs[run].outputs == {}
        where, scratch = (shared / "out.txt").read_text().split()
        assert where == str(shared) and scratch.startswith(str(bench.execute))
        assert (shared / "here").exists()


async def test_the_ads_are_there_to_read() -> None:
    async with starter_bench() as bench:
        run = await finished(bench, "grep -c ^Extra $_CONDOR_JOB_AD; grep Cpus $_CONDOR_MACHINE_AD", Extra=1)
        assert bench.output(run) == "1\nCpus = 1\n"


async def test_renice_umask_core_and_stack_limit(root: None) -> None:
    async with starter_bench(JOB_RENICE_INCREMENT="TARGET.Extra + 2") as bench:
        run = await finished(bench, "nice; umask; ulimit -c; ulimit -Ss", Extra=3, CoreSize=0, StackSize=2 << 20)
        assert bench.output(run).split() == [str(os.nice(0) + 5), "0022", "0", "2048"]


async def test_a_read_only_or_absent_execute_directory_sends_the_job_back(tmp_path: Path) -> None:
    async with starter_bench(SLOTWISE_CONTROL_DIR=tmp_path) as bench:
        bench.execute.rmdir()
        bench.execute.symlink_to("/proc/1")
        run = bench.submit("/bin/true")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (schedd_pb2.RunEnded.EVICTED, 1007)
        assert "Cannot write to" in ended.reason
        assert (await bench.gone(run)).how == "evicted"
        bench.execute.unlink()
        bench.execute.mkdir()


async def test_a_deferred_job_waits_and_a_late_one_is_held() -> None:
    async with starter_bench() as bench:
        now = int(time.time())
        late = bench.submit("/bin/true", DeferralTime=now - 100, DeferralWindow=50)
        ended = await bench.ended(late)
        assert (ended.how, ended.reason_code) == (HELD, 20)
        soon = bench.submit(SH, "-c", "date +%s", DeferralTime=now + 2)
        never = bench.submit(SH, "-c", "touch ran", DeferralTime=now + 10_000)
        await bench.ended(soon)
        assert int(bench.output(soon)) >= now + 2
        assert bench.startd is not None
        bench.startd.command(never, kill={"reason_code": 1010})
        ended = await bench.ended(never)
        assert (ended.how, ended.reason_code) == (schedd_pb2.RunEnded.EVICTED, 1010)
        assert bench.shadow.runs[never].started is None
        await bench.clean()


async def test_usage_is_measured_and_told() -> None:
    knobs: dict[str, Any] = {
        "STARTER_INITIAL_UPDATE_INTERVAL": 1,
        "STARTER_UPDATE_INTERVAL": 1,
        "CGROUP_POLLING_INTERVAL": 0.2,
    }
    async with starter_bench(**knobs) as bench:
        script = (
            "i=0; while [ ! -e stop ]; do i=$((i+1)); done; dd if=/dev/zero of=f bs=1k count=300 2>/dev/null; "
            "while [ ! -e end ]; do sleep 0.05; done"
        )
        run = bench.submit(SH, "-c", script)
        updates = bench.shadow.runs[run].updates
        await bench.eventually(
            lambda: any(number_of(ad, "RemoteUserCpu") > 0.1 and number_of(ad, "NumPids") >= 1 for ad in updates),
            "it computes",
        )
        scratch = next(iter(bench.execute.glob("dir_*/scratch")))
        (scratch / "stop").touch()
        (scratch / "stop").chmod(0o644)  # it goes back as a result
        await bench.eventually(lambda: any(number_of(ad, "DiskUsage") >= 300 for ad in updates), "the file is seen")
        (scratch / "end").touch()
        ended = await bench.ended(run)
        assert ended.how == EXITED
        end = bench.shadow.runs[run].end_ad
        assert number_of(end, "RemoteUserCpu") + number_of(end, "RemoteSysCpu") > 0.1
        assert number_of(end, "ResidentSetSize") > 0 and number_of(end, "MemoryUsage") >= 1


async def test_a_job_of_milliseconds_reports_its_disk_and_no_more_processors_than_it_had() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "dd if=/dev/zero of=f bs=1k count=300 2>/dev/null")
        assert (await bench.ended(run)).how == EXITED
        end = bench.shadow.runs[run].end_ad
        assert number_of(end, "DiskUsage") >= 300
        assert number_of(end, "CpusUsage") <= 1.0


async def test_proportional_sizes_are_measured_on_request() -> None:
    async with starter_bench(USE_PSS="true") as bench:
        run = await finished(bench, "sleep 0.5")
        size = number_of(bench.shadow.runs[run].end_ad, "ProportionalSetSizeKb")
        assert 0 < size < 100_000


async def test_a_starter_that_is_not_root(root: None) -> None:
    """The whole of it as user nobody: no user switch, no mounts, no cgroups; families still end."""
    async with starter_bench(as_user=65534) as bench:
        run = await finished(bench, "id -u; echo x > new; (setsid sleep 60 &)", inputs={"in": b"1"})
        assert bench.output(run).split() == ["65534"]
        assert bench.output(run, "new") == "x\n"
        assert not (await bench.gone(run)).broken
        await bench.clean()

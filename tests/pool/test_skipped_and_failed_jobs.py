"""Jobs that need not run (skip_if_dataflow), and what comes back of jobs that fail (FailureFiles)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_PLUGIN = """#!/bin/sh
if [ "$1" = -classad ]; then
    printf 'MultipleFileSupport = true\\nPluginType = "FileTransfer"\\nSupportedMethods = "never"\\n'
    exit
fi
echo asked > report
printf 'TransferUrl = "never://x"\\nTransferSuccess = false\\nTransferError = "no luck"\\n' > "$4"
exit 1
"""


def run(pool: Pool, place: Path, commands: str, script: str) -> str:
    """Run a job with this script to its end; its log."""
    place.mkdir(exist_ok=True)
    place.chmod(0o777)
    (place / "exe.sh").write_text(f"#!/bin/sh\n{script}\n")
    (place / "exe.sh").chmod(0o755)
    os.utime(place / "exe.sh", (1, 1))
    (place / "s.sub").write_text(f"executable = exe.sh\nlog = l\nshould_transfer_files = yes\n{commands}\nqueue\n")
    pool.run("submit", "s.sub", cwd=place)
    pool.run("wait", "-wait", f"{LIMIT_S:g}", "l", cwd=place)
    return (place / "l").read_text()


def test_a_job_whose_results_are_up_to_date_is_skipped(make_pool: Callable[[str], Pool]) -> None:
    """As if it had run and ended with 0; HTCondor 25.14.1 logged and recorded the same."""
    pool = make_pool("NUM_CPUS = 1\n")
    pool.up()
    place = pool.root / "job"
    place.mkdir()
    for name, changed in (("in", 2), ("out", 3)):
        (place / name).touch()
        os.utime(place / name, (changed, changed))
    commands = "transfer_input_files = in\ntransfer_output_files = out\nskip_if_dataflow = true"
    log = run(pool, place, commands, "echo made > out")
    assert re.findall(r"^(\d\d\d) \(", log, re.MULTILINE) == ["000", "046", "005"], log
    assert "Dataflow job was skipped.\n...\n" in log and "Normal termination (return value 0)" in log
    shown = "DataflowJobSkipped", "ExitCode", "ExitBySignal", "NumJobStarts", "NumShadowStarts", "JobStatus"
    (said,) = pool.run("history", "-match", "1", "-af", *shown).stdout.splitlines()
    assert said == "true 0 false 0 1 4" and (place / "out").read_text() == ""
    os.utime(place / "in", (4, 4))
    log = run(pool, place, commands, "echo made > out")
    assert (place / "out").read_text() == "made\n" and "046 (" not in log.partition("\n000 (")[2]
    assert pool.run("history", "-match", "1", "-af", *shown[:4]).stdout.split() == ["false", "0", "false", "1"]


def test_failure_files_come_back_of_a_job_that_fails(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 1\n")
    pool.up()
    place = pool.root / "job"
    commands = (
        "when_to_transfer_output = ON_SUCCESS\nsuccess_exit_code = 0\nmax_retries = 0\noutput = o\n"
        'transfer_output_files = result\ntransfer_output_remaps = "why=renamed"\nMY.FailureFiles = "why, core.txt"\n'
    )
    script = "echo why > why; echo core > core.txt; echo result > result; echo said; exit $(cat status)"
    for status, expected in (("1", ["core.txt", "renamed"]), ("0", ["result"])):
        place.mkdir(exist_ok=True)
        (place / "status").write_text(status)
        log = run(pool, place, f"{commands}transfer_input_files = status", script)
        assert f"(return value {status})" in log
        assert (place / "o").read_text() == "said\n"
        there = {"core.txt", "renamed", "why", "result"} & {path.name for path in place.iterdir()}
        assert sorted(there) == expected
        for name in there:
            (place / name).unlink()


def test_failure_files_come_back_of_a_job_whose_inputs_cannot_be_had(
    make_pool: Callable[[str], Pool], open_directory: Path
) -> None:
    """A plugin leaves a report beside the file that it did not get; the reason of the hold is the plugin's."""
    plugin = open_directory / "plugin"
    pool = make_pool(f"NUM_CPUS = 1\nFILETRANSFER_PLUGINS = {plugin}\n")
    plugin.write_text(_PLUGIN)
    plugin.chmod(0o755)
    pool.up()
    place = pool.root / "job"
    place.mkdir()
    place.chmod(0o777)
    (place / "s.sub").write_text(
        "executable = /bin/true\ntransfer_executable = false\nlog = l\noutput = o\nshould_transfer_files = yes\n"
        'transfer_input_files = never://x\nMY.FailureFiles = "report, nothing"\nqueue\n'
    )
    pool.run("submit", "s.sub", cwd=place)
    pool.until("held", lambda: "012 (" in (place / "l").read_text())
    assert (place / "report").read_text() == "asked\n"
    assert "no luck" in pool.run("q", "-af", "HoldReason").stdout

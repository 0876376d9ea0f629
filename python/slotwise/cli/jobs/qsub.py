"""``slotwise qsub``: submit a batch script of PBS, Torque or SGE (manual page of condor_qsub)."""

from __future__ import annotations

import io
import os
import tempfile
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Given, Parsed
from slotwise.cli.host import condor_names
from slotwise.cli.jobs import qsub_script, submit
from slotwise.errors import SlotwiseError, UsageError

USAGE = """usage: slotwise qsub [options] [SCRIPT [ARGUMENT ...]]
  Submits a batch script; without one, what standard input has. Lines of the script that begin with `#PBS` or `#$`
  have options, too; the command line's count more.
  -N NAME               of the job, and of its output files; -o, -e PATH: these; -j oe: both in one; -i FILE: input
  -d DIR, -wd DIR, -cwd in which directory
  -l RESOURCE,...       nodes=1:ppn=N:gpus=N, select=1:ncpus=N:mem=SIZE, procs, ncpus, mem, pmem, file, gpus, arch,
                        opsys, host; others are ignored, and named
  -t FIRST[-LAST[:STEP]][%MOST]     an array of tasks (SGE_TASK_ID, PBS_ARRAYID)
  -v NAME[=VALUE],..., -V           environment; all of it
  -a [[[[CC]YY]MM]DD]hhmm[.SS]      not before
  -h                    held; -p N: priority; -A GROUP: accounting group; -r n: not again after an eviction
  -m n|e|a, -M ADDRESS  mail
  -S SHELL              the shell that runs the script; -b y: SCRIPT is a command line
  -W stagein=FILES, -W stageout=FILES        with or without `local@host:` in front
  -f FILE               the script
  -c, -q, -shell        are ignored
  --test, --print       do not submit; print the submit description
  --condor-keep-files   keep the submit description; -z: print no job id"""
_MOST_SCRIPT = 64 * 1024 * 1024


def main(args: list[str], inv: Invocation) -> int:
    """Submit a script."""
    given = qsub_script.command_line(args)
    if given.has("help"):
        inv.out(USAGE)
        return 0
    if given.has("version"):
        return condor_names.version([], inv)
    script, *arguments = [given.value("f") or "", *given.words] if given.has("f") else given.words or [""]
    is_command = (given.value("b") or "n").lower().startswith("y")
    if is_command and not script:
        raise UsageError("-b y needs a command line")
    of_stdin = not script
    if of_stdin:
        script = _from_stdin(given, inv)
    options, runs_itself = given, False
    if not is_command:
        path = inv.path(script)
        if not path.is_file():
            raise UsageError(f"there is no script {script}")
        with path.open(errors="replace") as stream:
            text = stream.read(_MOST_SCRIPT)
        options = qsub_script.together(qsub_script.directives(text), given)
        runs_itself = text.startswith("#!") and os.access(path, os.X_OK)
        script = str(path)
    if of_stdin and not options.has("N"):
        options.options.append(Given("N", values=["STDIN"]))
    call = qsub_script.Call(script, arguments, options, str(inv.cwd), inv.env, datetime.now(), runs_itself)
    for one in options.options:
        if one.name in ("o", "e") and inv.path(one.values[0]).is_dir():
            one.values[0] = one.values[0].rstrip("/") + "/"
    made = qsub_script.describe(call)
    for ignored in made.ignored:
        inv.err(f"WARNING: {ignored} is ignored")
    if options.has("test") or options.has("print"):
        inv.out(made.text, end="")
    return 0 if options.has("test") else _submit(made, options, inv)


def _from_stdin(given: Parsed, inv: Invocation) -> str:
    """A file with what standard input has: it is needed until the last of the jobs has started, and stays."""
    text = inv.stdin.read(_MOST_SCRIPT)
    prefix = f"{(given.value('N') or 'STDIN').replace('/', '_')}_qsub."
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=inv.cwd)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    Path(name).chmod(0o700)
    return name


def _submit(made: qsub_script.Description, options: Parsed, inv: Invocation) -> int:
    descriptor, name = tempfile.mkstemp(prefix="condor_qsub.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(made.text)
        said = io.StringIO()
        status = submit.main(["-terse", name], replace(inv, stdout=said, is_terminal=False, called=""))
    except SlotwiseError as error:
        inv.err(f"ERROR: {error}")
        status = 1
    finally:
        if not options.has("condor-keep-files"):
            Path(name).unlink()
    if status:
        inv.err("Job submission failed.")
        return 1
    if options.has("condor-keep-files"):
        inv.err(f"The submit description is {name}")
    if not options.has("z"):
        cluster = said.getvalue().partition(".")[0].strip()
        inv.out(f'Your job {cluster} ("{made.name}") has been submitted')
    return 0

"""``htcondor snake``: a Snakemake workflow run by a job on the access point."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.htcondor.verb import Call, Noun, Verb
from slotwise.errors import NotFoundError
from slotwise.submit import snakemake

if TYPE_CHECKING:
    from argparse import Namespace

#: How long the interpreter of Snakemake may take to say whether it has the plugin.
_LONGEST_LOOK_S = 60.0


_USAGE = """usage: htcondor snake submit [--jobdir DIR] [SNAKEFILE] [-- WORDS...]

Run Snakemake in a job of the local universe, which submits a job for each rule. It needs the plugin
snakemake-executor-plugin-htcondor beside Snakemake. WORDS are Snakemake's own options.

  --jobdir DIR   directory for the logs of that job and of the rules' jobs (logs, in the current directory)
  SNAKEFILE      the workflow (Snakefile)"""


def _submit(options: Namespace, call: Call) -> None:
    words: list[str] = options.words
    if any(word in ("-h", "-help", "--help") for word in words[: words.index("--") if "--" in words else None]):
        call.inv.out(_USAGE)
        return
    asked = snakemake.read(words)
    program = shutil.which("snakemake", path=call.inv.env.get("PATH"))
    if program is None:
        raise NotFoundError(
            "Could not find 'snakemake' executable on PATH.",
            hint="activate the environment that Snakemake is installed in",
        )
    if not has_plugin(program, dict(call.inv.env)):
        raise NotFoundError(
            f"The '{snakemake.PLUGIN}' plugin is required, and the Python of {program} has none.",
            hint=f"pip install {snakemake.PLUGIN} there",
        )
    workflow = asked.snakefile or snakemake.SNAKEFILE
    if not call.inv.path(workflow).exists():
        raise NotFoundError(
            f"Could not find Snakefile: {workflow}", hint="name it, or go to the directory of Snakefile"
        )
    jobdir = asked.jobdir or str(call.inv.cwd / snakemake.JOBDIR)
    call.inv.path(jobdir).mkdir(parents=True, exist_ok=True)
    memory = call.inv.knobs().get(snakemake.MEMORY_KNOB) or snakemake.MEMORY
    with call.schedd() as schedd:
        result = schedd.submit(snakemake.description(program, asked, jobdir, memory), count=1)
    call.inv.out(f"Snakemake management job submitted with JobID {result.cluster}.0")
    call.inv.out(f"Logs can be found in {jobdir}")


def has_plugin(program: str, env: dict[str, str]) -> bool:
    """Whether the Python that runs a Snakemake has the plugin; a program that is no script of Python's is taken to."""
    with Path(program).open("rb") as file:
        first = file.readline(4096).decode(errors="replace")
    words = shlex.split(first[2:]) if first.startswith("#!") else []
    if not any("python" in word for word in words):
        return True
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({snakemake.MODULE!r}) is None)"
    try:
        asked = subprocess.run([*words, "-c", look], env=env, capture_output=True, timeout=_LONGEST_LOOK_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    return asked.returncode == 0


NOUN = Noun(
    "Snakemake workflows, run by a job",
    {"submit": Verb("Run Snakemake in a job that submits a job for each rule", _submit, None)},
)

"""The job that runs Snakemake, as ``htcondor snake submit`` queues it: its words, and its submit description. Pure.

Snakemake runs on the access point (local universe), and its plugin for HTCondor submits a job for each rule
(htcondor_cli/snake.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slotwise.errors import UsageError
from slotwise.execution.arguments import join_new

#: The package that Snakemake needs to submit jobs.
PLUGIN = "snakemake-executor-plugin-htcondor"
MODULE = PLUGIN.replace("-", "_")
#: The workflow, and the directory of logs below the current one, where none is named.
SNAKEFILE, JOBDIR = "Snakefile", "logs"
#: The knob that has the memory of the job, and its value where it is not set.
MEMORY_KNOB, MEMORY = "SNAKEMAKE_MANAGER_REQUEST_MEM", "512MB"


class Asked(Struct, frozen=True):
    """What the words of a call name; None: the usual one."""

    snakefile: str | None = None
    jobdir: str | None = None
    #: Words for Snakemake itself.
    rest: tuple[str, ...] = ()


def read(words: Sequence[str]) -> Asked:
    """The words ``[--jobdir DIR] [SNAKEFILE] [-- WORDS FOR SNAKEMAKE]``; of several directories the last counts.

    :raises UsageError: a directory is missing.
    """
    end = words.index("--") if "--" in words else len(words)
    jobdir, left = None, []
    before = iter(words[:end])
    for word in before:
        name, equals, value = word.partition("=")
        if name != "--jobdir":
            left.append(word)
            continue
        jobdir = value if equals else next(before, "-")
        if not jobdir or jobdir.startswith("-"):
            raise UsageError(
                "--jobdir requires a valid directory string value", hint="htcondor snake submit --jobdir logs"
            )
    snakefile = left.pop(0) if left and not left[0].startswith("-") else None
    behind = words[end:]
    return Asked(snakefile, jobdir, (*left, *(behind if left else behind[1:])))


def description(program: str, asked: Asked, jobdir: str, memory: str) -> dict[str, str]:
    """The submit description of the job.

    :param program: the path of Snakemake.
    :param jobdir: the directory of logs, which is there.
    :param memory: what the job requests, as ``request_memory`` has it.
    """
    words = ["-s", asked.snakefile or SNAKEFILE, "--executor", "htcondor", "--htcondor-jobdir", jobdir, *asked.rest]
    name = "snakemake-mgmt-$(ClusterId)"
    directory = _literal(jobdir)
    return {
        "executable": _literal(program),
        "arguments": '"' + _literal(join_new(words)).replace('"', '""') + '"',
        "universe": "local",
        "request_disk": "512MB",
        "request_cpus": "1",
        "request_memory": memory,
        "log": f"{directory}/{name}.log",
        "output": f"{directory}/{name}.out",
        "error": f"{directory}/{name}.err",
        "getenv": "true",
        "JobBatchName": name,
    }


def _literal(text: str) -> str:
    """Text that is not to be expanded in a description."""
    return text.replace("$", "$(DOLLAR)")

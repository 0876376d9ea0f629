"""Snakemake workflows, run by a job."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import htcondor2
from slotwise.errors import UsageError
from slotwise.submit import snakemake

from htcondor_cli.noun import Noun
from htcondor_cli.verb import Verb


class Submit(Verb):
    """Queue the job that runs Snakemake, with the executor plugin for HTCondor.

    :param snakemake_args: ``[--jobdir DIR] [SNAKEFILE] [-- WORDS]``; with ``snakefile``, words for Snakemake alone.
    :raises RuntimeError: this Python has no plugin.
    :raises ValueError: ``--jobdir`` without a directory.
    :raises FileNotFoundError: the workflow is not there.
    :raises SystemExit: the job could not be queued; the reason is printed.
    """

    options: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "jobdir": {"args": ("--jobdir",), "help": "directory for logs; `logs` in the current one", "required": False},
        "snakemake_args": {
            "args": ("snakemake_args",),
            "nargs": argparse.REMAINDER,
            "help": "the workflow, and behind -- words for Snakemake",
        },
    }

    def __init__(
        self,
        logger: logging.Logger | None,
        snakefile: str | None = None,
        snakemake_args: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        if importlib.util.find_spec(snakemake.MODULE) is None:
            raise RuntimeError(f"The '{snakemake.PLUGIN}' plugin is required: pip install {snakemake.PLUGIN}")
        words = list(snakemake_args or ())
        try:
            asked = snakemake.read(words) if snakefile is None else snakemake.Asked(str(snakefile), rest=tuple(words))
        except UsageError as error:
            raise ValueError(error.message) from None
        jobdir = Path(asked.jobdir or str(options.get("jobdir") or Path.cwd() / snakemake.JOBDIR))
        jobdir.mkdir(parents=True, exist_ok=True)
        workflow = asked.snakefile or snakemake.SNAKEFILE
        if not Path(workflow).exists():
            raise FileNotFoundError(f"Could not find Snakefile: {workflow} (name it, or go to its directory)")
        try:
            cluster = _queue(asked, jobdir)
        except Exception as error:  # as HTCondor's, whatever it is
            sys.stdout.write(f"Error: Could not submit local universe job.\nDetails: {error}\n")
            sys.exit(1)
        else:
            sys.stdout.write(f"Snakemake management job submitted with JobID {cluster}.0\n")
            sys.stdout.write(f"Logs can be found in {jobdir}\n")


def _queue(asked: snakemake.Asked, jobdir: Path) -> int:
    program = shutil.which("snakemake")
    if program is None:
        raise RuntimeError("Could not find 'snakemake' executable on PATH: activate its environment")
    memory = str(htcondor2.param.get(snakemake.MEMORY_KNOB, snakemake.MEMORY))
    description = snakemake.description(program, asked, str(jobdir), memory)
    cluster: int = htcondor2.Schedd().submit(htcondor2.Submit(description)).cluster()
    return cluster


class Snake(Noun):
    """Snakemake workflows."""

    class submit(Submit):
        """Run Snakemake in a job that submits a job for each rule."""

    @classmethod
    def verbs(cls) -> list[type[Verb]]:
        """Its verbs."""
        return [cls.submit]

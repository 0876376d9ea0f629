"""Jobs that are HTCondor's condor_dagman, as their ads show them."""

from __future__ import annotations

import itertools
from pathlib import PurePosixPath

from slotwise.classad import ClassAd
from slotwise.execution.arguments import of_job

_PROGRAM = "condor_dagman"


def is_dagman(program: object) -> bool:
    """Whether a program is condor_dagman, by its name."""
    return isinstance(program, str) and PurePosixPath(program).name == _PROGRAM


def dag_files(ad: ClassAd) -> list[str]:
    """The DAG files that condor_dagman is called with, as its arguments name them.

    :raises UsageError: for arguments with an open quote.
    """
    words = of_job(ad.get("Arguments"), ad.get("Args"))
    return [value for flag, value in itertools.pairwise(words) if flag.lower() == "-dag"]

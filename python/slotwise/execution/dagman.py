"""Jobs that run DAGs, as their ads show them: HTCondor's condor_dagman, and Slotwise's own.

Both programs have the same name. Slotwise's is one of the links that ``slotwise condor-names`` makes inside of an
installation, and is told by its directory's name.
"""

from __future__ import annotations

import itertools
from pathlib import Path, PurePosixPath

import slotwise
from slotwise.classad import ClassAd
from slotwise.execution.arguments import of_job

PROGRAM = "condor_dagman"
#: The directory of Slotwise's own, in each installation.
OWN_DIRECTORY = "condor_names"
#: That of this installation.
OWN = str(Path(slotwise.__file__).parent / OWN_DIRECTORY / PROGRAM)
#: What a zygote loads that has runners go on in forks of it: a function of a descriptor, see
#: :mod:`slotwise.execution.launcher`.
LOADED = "slotwise.cli.warm:serve"


def runs_dags(program: object) -> bool:
    """Whether a program is condor_dagman, HTCondor's or Slotwise's, by its name."""
    return isinstance(program, str) and PurePosixPath(program).name == PROGRAM


def is_dagman(program: object) -> bool:
    """Whether a program is HTCondor's condor_dagman, which cannot tell this schedd what it does."""
    return runs_dags(program) and PurePosixPath(str(program)).parent.name != OWN_DIRECTORY


def dag_files(ad: ClassAd) -> list[str]:
    """The DAG files that condor_dagman is called with, as its arguments name them.

    :raises UsageError: for arguments with an open quote.
    """
    words = of_job(ad.get("Arguments"), ad.get("Args"))
    return [value for flag, value in itertools.pairwise(words) if flag.lower() == "-dag"]

"""The program and arguments of a node's script, its macros replaced. Pure."""

from __future__ import annotations

from collections.abc import Mapping

#: Macros that every script has.
_OF_ALL = frozenset(
    ("NODE", "JOB", "RETRY", "MAX_RETRIES", "DAGID", "DAG_STATUS", "NODE_COUNT", "DONE_COUNT", "FAILED_COUNT",
     "FUTILE_COUNT", "QUEUED_COUNT")
)  # fmt: skip
#: Macros of scripts that run when there is a job.
_OF_JOBS = frozenset(
    ("JOBID", "CLUSTERID", "JOB_COUNT", "JOB_ABORT_COUNT", "SUCCESS", "RETURN", "EXIT_CODES", "EXIT_CODE_COUNTS",
     "EXIT_CODE_LIST", "PRE_SCRIPT_RETURN")
)  # fmt: skip


def words(line: str, values: Mapping[str, str]) -> list[str]:
    """The words of a script: blanks part them, quotes are part of them, and a whole word ``$MACRO`` is its value."""
    return [values.get(word[1:].upper(), word) if word.startswith("$") else word for word in line.split()]


def unknown_macro(line: str, *, before_the_job: bool) -> str:
    """A macro of a script's arguments that it does not have; "" if there is none."""
    known = _OF_ALL if before_the_job else _OF_ALL | _OF_JOBS
    for word in line.split()[1:]:
        if word.startswith("$") and word[1:].upper() not in known:
            return word
    return ""


__all__ = ["unknown_macro", "words"]

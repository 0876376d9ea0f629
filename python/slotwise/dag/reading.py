"""DAG files as a DAG, with all that is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from slotwise._native import DagData, read_dag, read_dag_header, read_dag_rescue


class ReadOptions(Struct, frozen=True):
    """How DAG files are read; the DAGMAN_ knobs of these names say more.

    :ivar directory: where the DAG's job runs, absolute.
    :ivar use_dag_dir: -usedagdir.
    :ivar munge: DAGMAN_MUNGE_NODE_NAMES.
    :ivar any_name: DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS.
    :ivar join: DAGMAN_USE_JOIN_NODES.
    :ivar append_vars: DAGMAN_DEFAULT_APPEND_VARS.
    :ivar strict: DAGMAN_USE_STRICT.
    """

    directory: str
    use_dag_dir: bool = False
    munge: bool = True
    any_name: bool = False
    join: bool = True
    append_vars: bool = False
    strict: int = 1


class Problem(Struct, frozen=True):
    """What is wrong with a DAG. ``line``: 0 for a file as a whole. ``log``: the lines that HTCondor logs."""

    severity: Literal["error", "warning"]
    file: str
    line: int
    text: str
    hint: str = ""
    log: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        hint = f" ({self.hint})" if self.hint else ""
        return f"{'ERROR' if self.severity == 'error' else 'WARNING'}: {place} {self.text}{hint}"


def read(paths: Sequence[str], options: ReadOptions) -> DagData:
    """The DAG of files, as they are named on a command line in ``options.directory``."""
    return read_dag(list(paths), structs.asdict(options))


def header(label: str, text: str, options: ReadOptions) -> DagData:
    """What one file says about its DAG's job, up to the first problem; ``label`` names it in messages."""
    return read_dag_header(label, text, structs.asdict(options))


def rescued(dag: DagData, label: str, text: str, options: ReadOptions) -> DagData:
    """A DAG with what a rescue file or a save point says of its nodes; ``label`` names that in messages."""
    return read_dag_rescue(dag, label, text, structs.asdict(options))


def problems(dag: DagData) -> list[Problem]:
    """What its files are refused or warned about for, in the order in which HTCondor would meet it."""
    return [
        Problem(severity, file, line, text, hint, tuple(log))
        for severity, file, line, text, hint, log in dag.problems()
    ]


def doubts(dag: DagData, paths: Sequence[str], directory: Path) -> Iterator[Problem]:
    """What stops a valid DAG when it runs: cycles, submit files that are missing, scripts that cannot be run."""
    if round_ := dag.cycle():
        shown = " -> ".join([*round_[:20], *(["..."] if len(round_) > 20 else []), round_[0]])
        yield Problem("error", paths[0], 0, f"its nodes wait for each other: {shown}", "remove one of the dependencies")
    for node, place, kind, text in dag.files():
        where = directory / place
        program = text.split(maxsplit=1)[0] if kind == "script" else text
        path = where / program
        said = f"node {node}: {program}"
        if not where.is_dir():
            yield Problem("error", paths[0], 0, f"node {node}: there is no directory {where}", "make it")
        elif kind == "script" and not path.is_file():
            hint = "scripts are looked for in the node's directory, not in PATH"
            yield Problem("error", paths[0], 0, f"{said}: there is no such script", hint)
        elif kind == "script" and not os.access(path, os.X_OK):
            yield Problem("error", paths[0], 0, f"{said} is not executable", f"chmod +x {program}")
        elif not path.is_file():
            what = "submit file" if kind == "submit" else "DAG file"
            yield Problem("error", paths[0], 0, f"{said}: there is no such {what}", f"it is looked for in {where}")


__all__ = ["Problem", "ReadOptions", "doubts", "header", "problems", "read", "rescued"]

"""``slotwise dag check``: all that is wrong with DAG files, before anything is submitted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import node_doubts
from slotwise.dag import reading, run_settings
from slotwise.dag.reading import Problem, ReadOptions
from slotwise.execution import dagman

if TYPE_CHECKING:
    from slotwise._native import DagData
    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config


def main(args: list[str], inv: Invocation) -> int:
    """Print what is wrong; 0 for a DAG that can run."""
    parser = Parser(
        inv,
        "dag check",
        "Reads DAG files with their splices and included files, and prints everything that is wrong with them: each "
        "error with its place and what to do. Nothing is submitted.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="the files of one DAG")
    parser.add_argument("--usedagdir", "-usedagdir", action="store_true", help="each is read in its own directory")
    parser.add_argument("--json", "-json", action="store_true", help="what is wrong, for programs")
    options = parser.take(args)
    if options is None:
        return 0
    dag, found = look(options.files, inv, use_dag_dir=options.usedagdir)
    if options.json:
        errors = count_errors(dag, found)
        inv.out(json.dumps({
            "files": options.files, "nodes": dag.node_count, "dependencies": dag.edge_count, "errors": errors,
            "problems": [
                {"severity": each.severity, "file": each.file, "line": each.line, "text": each.text, "hint": each.hint}
                for each in found
            ],
        }))  # fmt: skip
        return 1 if errors else 0
    if tell(dag, found, inv):
        return 1
    inv.out(f"{' '.join(options.files)}: no errors (nodes: {dag.node_count}, dependencies: {dag.edge_count})")
    return 0


def look(
    files: Sequence[str], inv: Invocation, *, use_dag_dir: bool, program: str = ""
) -> tuple[DagData, list[Problem]]:
    """Read a DAG's files, and say what is wrong with them, with what they name, and with the nodes' jobs. ``program``:
    what is to run it, if the configuration does not say."""
    knobs = inv.knobs()
    dag = reading.read(files, read_options(inv, knobs, use_dag_dir=use_dag_dir))
    found = reading.problems(dag)
    if not dagman.is_dagman(program or knobs.get_str("SLOTWISE_DAGMAN")):
        found += _of_configuration(dag, inv)
    if dag.is_valid:
        found += reading.doubts(dag, files, inv.cwd)
        found += node_doubts.doubts(dag, files, inv)
    return dag, found


def _of_configuration(dag: DagData, inv: Invocation) -> Iterator[Problem]:
    """What the configuration and the DAG's CONFIG file ask for that its runner does not do."""
    owns = [str(inv.path(name)) for name in dag.configs if inv.path(name).is_file()]
    for own in owns:
        for problem in run_settings.doubts(Path(own)):
            line = problem.origin.line if problem.origin else 0
            yield Problem("warning", own, line, problem.message, problem.hint)
    _, knobs = run_settings.configuration(inv.env, inv.home.root, owns[0] if owns else "")
    for sentence in run_settings.unfollowed(knobs):
        yield Problem("error", owns[0] if owns else "the configuration", 0, sentence)


def count_errors(dag: DagData, found: Sequence[Problem]) -> int:
    """The errors among what is wrong, with those that were too many to name."""
    return sum(problem.severity == "error" for problem in found) + dag.more_errors


def tell(dag: DagData, found: Sequence[Problem], inv: Invocation) -> int:
    """Print what is wrong; gives the number of errors."""
    for problem in found:
        inv.err(str(problem))
    if dag.more_errors:
        inv.err(f"ERROR: and {dag.more_errors} more errors")
    errors = count_errors(dag, found)
    if errors:
        inv.err(f"{errors} error{'s' if errors > 1 else ''}; nothing can run until they are mended")
    return errors


def read_options(inv: Invocation, knobs: Config, *, use_dag_dir: bool) -> ReadOptions:
    """How the configuration has DAG files read, for a DAG of the caller's directory."""
    return ReadOptions(
        directory=str(inv.cwd),
        use_dag_dir=use_dag_dir,
        munge=knobs.get_bool("DAGMAN_MUNGE_NODE_NAMES"),
        any_name=knobs.get_bool("DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS"),
        join=knobs.get_bool("DAGMAN_USE_JOIN_NODES"),
        append_vars=knobs.get_bool("DAGMAN_DEFAULT_APPEND_VARS"),
        strict=knobs.get_int("DAGMAN_USE_STRICT"),
    )

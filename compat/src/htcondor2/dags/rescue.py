"""What a rescue file of DAGMan says of a DAG."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from htcondor2.dags.dag import DAG
from htcondor2.dags.exceptions import NoRescueFileFound
from htcondor2.dags.formatter import NodeNameFormatter, SimpleFormatter
from htcondor2.dags.writer import DEFAULT_DAG_FILE_NAME


def rescue(dag: DAG, rescue_file: str | Path, formatter: NodeNameFormatter | None = None) -> None:
    """Mark the nodes as done that the file says are, and no others. ``formatter``: the one that the DAG was written
    with."""
    _rescue(dag, Path(rescue_file).read_text(), formatter or SimpleFormatter())


def _rescue(dag: DAG, rescue_file_text: str, formatter: NodeNameFormatter) -> None:
    done: dict[str, dict[int, bool]] = defaultdict(dict)
    for line in rescue_file_text.splitlines():
        words = line.split()
        if words[:1] == ["DONE"] and len(words) > 1:
            layer, index = formatter.parse(words[1])
            done[layer][index] = True
    for node in dag.nodes:
        node.done = done[node.name]


def find_rescue_file(dag_dir: str | Path, dag_file_name: str = DEFAULT_DAG_FILE_NAME) -> Path:
    """The newest rescue file of a DAG in its directory.

    :raises NoRescueFileFound: there is none.
    """
    found = sorted(Path(dag_dir).glob(f"{dag_file_name}.rescue*"))
    if not found:
        raise NoRescueFileFound(f"{dag_dir} has no rescue file of {dag_file_name}")
    return found[-1]

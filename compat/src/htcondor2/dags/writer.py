"""The files that DAGMan reads: the DAG, its submit descriptions, its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from htcondor2._submit import Submit
from htcondor2.dags.dag import DAG
from htcondor2.dags.edges import End, JoinFactory, JoinNode, ManyToMany
from htcondor2.dags.formatter import NodeNameFormatter, SimpleFormatter
from htcondor2.dags.node import BaseNode, FinalNode, NodeLayer, Script, SubDAG
from htcondor2.dags.walk_order import WalkOrder

DEFAULT_DAG_FILE_NAME = "dagfile.dag"
CONFIG_FILE_NAME = "dagman.config"
NOOP_SUBMIT_FILE_NAME = "__JOIN__.sub"
_JOIN_LAYER = "__JOIN__"


def write_dag(
    dag: DAG,
    dag_dir: str | Path,
    dag_file_name: str | None = DEFAULT_DAG_FILE_NAME,
    node_name_formatter: NodeNameFormatter | None = None,
) -> Path:
    """Write the files of a DAG into a directory, which is made; returns the path of the DAG's own."""
    return DAGWriter(dag, node_name_formatter).write(dag_dir, dag_file_name)


class DAGWriter:
    """Writes one DAG, once."""

    def __init__(self, dag: DAG, node_name_formatter: NodeNameFormatter | None = None) -> None:
        self.dag = dag
        self.node_name_formatter = node_name_formatter or SimpleFormatter()
        self.join_factory = JoinFactory()

    def write(self, dag_dir: str | Path, dag_file_name: str | None = DEFAULT_DAG_FILE_NAME) -> Path:
        """Write all files; returns the path of the DAG's own."""
        directory = Path(dag_dir).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / (dag_file_name or DEFAULT_DAG_FILE_NAME)
        path.write_text("".join(f"{line}\n" for line in self.yield_dag_file_lines()))
        final = [] if self.dag._final_node is None else [self.dag._final_node]
        for node in (*self.dag.nodes, *final):
            if isinstance(node, NodeLayer | FinalNode) and isinstance(node.submit_description, Submit):
                (directory / f"{node.name}.sub").write_text(str(node.submit_description))
        if self.join_factory.joins:
            (directory / NOOP_SUBMIT_FILE_NAME).touch()
        if self.dag.dagman_config:
            knobs = "\n".join(f"{name} = {value}" for name, value in self.dag.dagman_config.items())
            (directory / CONFIG_FILE_NAME).write_text(knobs)
        return path

    def yield_dag_file_lines(self) -> Iterator[str]:
        """The lines of the DAG's own file."""
        yield "# BEGIN META"
        yield from self._about_all()
        yield "# END META"
        yield "# BEGIN NODES AND EDGES"
        for node in self.dag.walk(WalkOrder.BREADTH_FIRST):
            yield from self._layer(node) if isinstance(node, NodeLayer) else self._other(node)
            yield from self._edges_below(node)
        for join in self.join_factory.joins:
            yield f"JOB {self._join(join)} {NOOP_SUBMIT_FILE_NAME} NOOP"
        yield "# END NODES AND EDGES"
        if self.dag._final_node is not None:
            yield "# FINAL NODE"
            yield from self._other(self.dag._final_node)
            yield "# END FINAL NODE"

    def _about_all(self) -> Iterator[str]:
        dag = self.dag
        if dag.dagman_config:
            yield f"CONFIG {CONFIG_FILE_NAME}"
        if dag.jobstate_log is not None:
            yield f"JOBSTATE_LOG {dag.jobstate_log.as_posix()}"
        if (status := dag.node_status_file) is not None:
            often = () if status.update_time is None else (status.update_time,)
            always = ("ALWAYS-UPDATE",) if status.always_update else ()
            yield _words("NODE_STATUS_FILE", status.path.as_posix(), *often, *always)
        if (dot := dag.dot_config) is not None:
            update = "UPDATE" if dot.update else "DONT-UPDATE"
            overwrite = "OVERWRITE" if dot.overwrite else "DONT-OVERWRITE"
            include = () if dot.include_file is None else ("INCLUDE", dot.include_file.as_posix())
            yield _words("DOT", dot.path.as_posix(), update, overwrite, *include)
        for name, value in dag.dagman_job_attrs.items():
            yield f"SET_JOB_ATTR {name} = {value}"
        for category, most in dag.max_jobs_per_category.items():
            yield f"MAXJOBS {category} {most}"

    def _layer(self, layer: NodeLayer) -> Iterator[str]:
        for index, variables in enumerate(layer.vars):
            name = self._name(layer, index)
            yield _words("JOB", name, _description(layer), *_options(layer, index))
            if variables:
                values = (f'{key}="{_escaped(value)}"' for key, value in variables.items())
                yield _words("VARS", name, *values)
            yield from _commands(layer, name)

    def _other(self, node: BaseNode) -> Iterator[str]:
        if isinstance(node, SubDAG):
            name = self._name(node, 0)
            yield _words("SUBDAG EXTERNAL", name, node.dag_file, *_options(node, 0))
        elif isinstance(node, FinalNode):
            name = node.name
            yield _words("FINAL", name, _description(node), *_options(node, 0))
        else:
            raise TypeError(f"{node!r} is neither a layer, nor a DAG of its own, nor a final node")
        yield from _commands(node, name)

    def _edges_below(self, parent: BaseNode) -> Iterator[str]:
        for child in parent.children:
            edge = self.dag._edges.get(parent, child) or ManyToMany()
            for above, below in edge.get_edges(parent, child, self.join_factory):
                yield _words("PARENT", *self._names(parent, above), "CHILD", *self._names(child, below))

    def _names(self, node: BaseNode, end: End) -> list[str]:
        return [self._join(end)] if isinstance(end, JoinNode) else [self._name(node, index) for index in end]

    def _name(self, node: BaseNode, index: int) -> str:
        return self.node_name_formatter.generate(node.name, index)

    def _join(self, join: JoinNode) -> str:
        return self.node_name_formatter.generate(_JOIN_LAYER, join.id)


def _description(node: NodeLayer | FinalNode) -> str:
    if isinstance(node.submit_description, Submit):
        return f"{node.name}.sub"
    return node.submit_description.absolute().as_posix()


def _options(node: BaseNode, index: int) -> list[str]:
    directory = [] if node.dir is None else ["DIR", str(node.dir)]
    return directory + ["NOOP"] * node.noop.get(index, False) + ["DONE"] * node.done.get(index, False)


def _commands(node: BaseNode, name: str) -> Iterator[str]:
    if node.retries is not None:
        unless = () if node.retry_unless_exit is None else ("UNLESS-EXIT", node.retry_unless_exit)
        yield _words("RETRY", name, node.retries, *unless)
    for when, script in (("PRE", node.pre), ("POST", node.post)):
        if script is not None:
            yield _script(name, script, when)
    if node.pre_skip_exit_code is not None:
        yield f"PRE_SKIP {name} {node.pre_skip_exit_code}"
    if node.priority:
        yield f"PRIORITY {name} {node.priority}"
    if node.category is not None:
        yield f"CATEGORY {name} {node.category}"
    if node.abort is not None:
        status = () if node.abort.dag_return_value is None else ("RETURN", node.abort.dag_return_value)
        yield _words("ABORT-DAG-ON", name, node.abort.node_exit_value, *status)


def _script(name: str, script: Script, when: str) -> str:
    defer = ("DEFER", script.retry_status, script.retry_delay) if script.retry else ()
    return _words("SCRIPT", *defer, when, name, script.executable, *script.arguments)


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


def _words(*words: object) -> str:
    return " ".join(map(str, words))


__all__ = [
    "CONFIG_FILE_NAME",
    "DEFAULT_DAG_FILE_NAME",
    "NOOP_SUBMIT_FILE_NAME",
    "DAGWriter",
    "write_dag",
]

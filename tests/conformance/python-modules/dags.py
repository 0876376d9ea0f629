"""DAGs made with htcondor2.dags, as HTCondor's or ours has them: prints the files that are written, as JSON.

Called as ``python dags.py DIRECTORY``; the path says whose module it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import htcondor2
from htcondor2 import dags

Make = Callable[[], Any]


def diamond() -> Any:
    dag = dags.DAG()
    top = dag.layer(name="top", submit_description=htcondor2.Submit("executable = a.sh\nrequest_memory = 1G\n"))
    left = top.child_layer(name="left", submit_description=Path("/x/left.sub"))
    right = top.child_layer(name="right", submit_description=Path("/x/right.sub"))
    bottom = left.child_layer(name="bottom", submit_description=Path("/x/bottom.sub"))
    bottom.add_parents(right)
    return dag


def layers_with_variables() -> Any:
    dag = dags.DAG()
    split = dag.layer(name="split", submit_description=htcondor2.Submit({"executable": "/bin/split"}))
    work = split.child_layer(
        name="work",
        submit_description=htcondor2.Submit({"executable": "/bin/work", "arguments": "$(n) $(word)"}),
        vars=[{"n": n, "word": word} for n, word in enumerate(("plain", 'with "quotes"', "back\\slash", ""))],
    )
    work.child_layer(name="merge", submit_description=htcondor2.Submit({"executable": "/bin/merge"}))
    return dag


def options_of_nodes() -> Any:
    dag = dags.DAG()
    dag.layer(
        name="all",
        submit_description=Path("/x/all.sub"),
        vars=[{"a": 1}, {"a": 2}, {}],
        dir=Path("/some/where"),
        noop={1: True},
        done={0: True, 2: False},
        retries=3,
        retry_unless_exit=7,
        pre=dags.Script("/x/pre.sh", ["$JOB", "$RETRY", 5]),
        post=dags.Script("/x/post.sh", ["$RETURN"], retry=True, retry_status=4, retry_delay=60),
        pre_skip_exit_code=9,
        priority=5,
        category="io",
        abort=dags.DAGAbortCondition(node_exit_value=3, dag_return_value=10),
    )
    dag.layer(name="abort", submit_description=Path("/x/b.sub"), abort=dags.DAGAbortCondition(1), noop=True, done=True)
    return dag


def all_of_a_dag() -> Any:
    dag = dags.DAG(
        dagman_config={"DAGMAN_MAX_JOBS_IDLE": 10, "DAGMAN_USE_STRICT": 2},
        dagman_job_attributes={"Purpose": '"trial"', "Level": 3},
        max_jobs_by_category={"io": 2, "cpu": 5},
        dot_config=dags.DotConfig("x.dot", update=True, overwrite=False, include_file="head.dot"),
        jobstate_log="x.jobstate",
        node_status_file=dags.NodeStatusFile("x.status", update_time=30, always_update=True),
    )
    dag.layer(name="one", submit_description=Path("/x/one.sub"))
    dag.final(name="last", submit_description=htcondor2.Submit({"executable": "/bin/last"}), post=dags.Script("p.sh"))
    return dag


def plain_settings() -> Any:
    return dags.DAG(dot_config=dags.DotConfig("y.dot"), node_status_file=dags.NodeStatusFile("y.status"))


def one_to_one() -> Any:
    dag = dags.DAG()
    first = dag.layer(name="first", submit_description=Path("/x/1.sub"), vars=[{"n": n} for n in range(3)])
    first.child_layer(
        name="second", submit_description=Path("/x/2.sub"), vars=[{"n": n} for n in range(3)], edge=dags.OneToOne()
    )
    return dag


def many_to_many_with_join() -> Any:
    dag = dags.DAG()
    first = dag.layer(name="first", submit_description=Path("/x/1.sub"), vars=[{} for _ in range(3)])
    second = first.child_layer(name="second", submit_description=Path("/x/2.sub"), vars=[{} for _ in range(2)])
    second.child_layer(name="third", submit_description=Path("/x/3.sub"), vars=[{} for _ in range(2)])
    return dag


def grouper() -> Any:
    dag = dags.DAG()
    first = dag.layer(name="first", submit_description=Path("/x/1.sub"), vars=[{} for _ in range(6)])
    first.child_layer(
        name="second", submit_description=Path("/x/2.sub"), vars=[{} for _ in range(2)],
        edge=dags.Grouper(parent_chunk_size=3, child_chunk_size=1),
    )  # fmt: skip
    return dag


def slicer() -> Any:
    dag = dags.DAG()
    first = dag.layer(name="first", submit_description=Path("/x/1.sub"), vars=[{} for _ in range(6)])
    first.child_layer(
        name="second", submit_description=Path("/x/2.sub"), vars=[{} for _ in range(3)],
        edge=dags.Slicer(parent_slice=slice(None, None, 2), child_slice=slice(None)),
    )  # fmt: skip
    return dag


def sub_dags() -> Any:
    dag = dags.DAG()
    inner = dag.subdag(name="inner", dag_file="in.dag", dir="deep", retries=1)
    inner.child_layer(name="after", submit_description=Path("/x/after.sub"))
    inner.parent_layer(name="before", submit_description=Path("/x/before.sub"), vars=[{}, {}])
    inner.child_subdag(name="other", dag_file=Path("other.dag"))
    return dag


def chosen_by_name() -> Any:
    dag = diamond()
    dag.glob("*t").child_layer(name="behind", submit_description=Path("/x/behind.sub"))
    return dag


class Numbered(dags.NodeNameFormatter):  # type: ignore[misc, name-defined]
    """Names of one's own."""

    def generate(self, layer_name: str, node_index: int) -> str:
        return f"{layer_name}.{node_index:03d}"

    def parse(self, node_name: str) -> tuple[str, int]:
        layer, _, index = node_name.rpartition(".")
        return layer, int(index)


def own_names() -> Any:
    return layers_with_variables()


EXAMPLES: dict[str, tuple[Make, Any]] = {
    made.__name__: (made, Numbered() if made is own_names else None)
    for made in (
        diamond, layers_with_variables, options_of_nodes, all_of_a_dag, plain_settings, one_to_one,
        many_to_many_with_join, grouper, slicer, sub_dags, chosen_by_name, own_names,
    )
}  # fmt: skip


def written(directory: Path) -> dict[str, dict[str, str]]:
    found = {}
    for name, (make, formatter) in EXAMPLES.items():
        place = directory / name
        dags.write_dag(make(), place, dag_file_name="x.dag", node_name_formatter=formatter)
        found[name] = {path.name: path.read_text() for path in sorted(place.iterdir())}
    return found


def rescued(directory: Path) -> dict[str, Any]:
    """What a rescue file marks, and which one is found."""
    dag = options_of_nodes()
    place = directory / "rescued"
    dags.write_dag(dag, place, dag_file_name="x.dag")
    for number in (1, 3):
        (place / f"x.dag.rescue00{number}").write_text(f"# a comment\n\nDONE all:{number - 1}\nDONE abort:0\n")
    path = dags.find_rescue_file(place, "x.dag")
    dags.rescue(dag, path)
    done = {node.name: sorted(index for index, is_done in node.done.items() if is_done) for node in dag.nodes}
    return {"found": path.name, "done": done}


if __name__ == "__main__":
    here = Path(sys.argv[1])
    print(json.dumps({"files": written(here), "rescue": rescued(here)}, indent=1))

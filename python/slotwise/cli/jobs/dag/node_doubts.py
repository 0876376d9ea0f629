"""What is wrong or doubtful with the jobs of a DAG's nodes.

Errors in submit files, requests that no slot can meet, files that two nodes write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import convert

from slotwise._native import DagRun
from slotwise.cli.jobs import submit_doubts
from slotwise.dag import node_jobs, node_log, run_settings
from slotwise.dag.node_jobs import DagFacts, NodeFacts
from slotwise.dag.nodes import Node
from slotwise.dag.reading import Problem
from slotwise.dag.run_options import RunOptions
from slotwise.errors import SubmitError
from slotwise.submit import Submission, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slotwise._native import DagData
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation

#: The jobs of so many nodes are looked at, and of each so many.
_NODES, _JOBS = 2000, 100
#: So many descriptions are looked at for what the pool cannot meet: each is a question to the collector.
_ASKED = 50
#: So many files are told of that several nodes write.
_TOLD = 20


def doubts(dag: DagData, files: Sequence[str], inv: Invocation) -> Iterator[Problem]:
    """All of them, in the order of the nodes; the DAG is valid."""
    options = RunOptions(files=list(files))
    settings = run_settings.settings(options, str(inv.cwd), inv.knobs(), inv.knobs())
    run = DagRun(dag, settings.rules)
    facts = DagFacts(1, str(inv.cwd / "nodes.log"), node_log.MASK, "dag")
    texts: dict[Path, str] = {}
    looked: set[tuple[str, str]] = set()
    said: set[str] = set()
    writers: dict[Path, list[int]] = {}
    for number in [*run.order(), *run.services()][:_NODES]:
        node = convert(run.about(number), Node)
        if node.noop or node.dag_file:
            continue
        directory = inv.cwd / node.directory
        text = run.description(node.description)
        if text is None:
            path = directory / node.description
            if path not in texts:
                try:
                    texts[path] = path.read_text(errors="surrogateescape")
                except OSError:  # told already: there is no such file
                    texts[path] = ""
            text = texts[path]
        if not text.strip():
            continue
        place = run.place(number)
        try:
            jobs = _read(text, node, run.parents(number), number, directory, facts, inv)
        except SubmitError as error:
            message = f"{node.description}: {error.message}"
            if message not in said:
                said.add(message)
                yield Problem("error", *place, f"node {node.name}: {message}", error.hint or "")
            continue
        if (node.directory, node.description) not in looked:
            looked.add((node.directory, node.description))
            found = submit_doubts.before(jobs)
            if len(looked) <= _ASKED:
                found += submit_doubts.after(jobs, inv)
            for doubt in found:
                yield Problem("warning", *place, f"node {node.name}: {doubt}")
        for path in _written(jobs):
            known = writers.setdefault(path, [])
            if number not in known[-1:]:
                known.append(number)
    shared = [(path, numbers) for path, numbers in writers.items() if len(numbers) > 1]
    for path, numbers in shared[:_TOLD]:
        first, second = (run.name(number) for number in numbers[:2])
        more = f" and {len(numbers) - 2} more" if len(numbers) > 2 else ""
        shown = path.relative_to(inv.cwd) if path.is_relative_to(inv.cwd) else path
        yield Problem(
            "warning", *run.place(numbers[1]), f"nodes {first}, {second}{more} write the same file {shown}",
            "give it a name with $(JOB), which is the node's",
        )  # fmt: skip
    if len(shared) > _TOLD:
        yield Problem("warning", files[0], 0, f"so do nodes for {len(shared) - _TOLD} more files")


def _read(
    text: str, node: Node, parents: Sequence[str], number: int, directory: Path, dag: DagFacts, inv: Invocation
) -> Submission:
    """The jobs of a node, as its runner would submit them.

    :raises SubmitError: they cannot be submitted.
    """
    facts = NodeFacts(
        name=node.name, kind=node.kind, parents=parents, has_children=node.has_children,
        priority=node.priority, vars=node.vars, retry=0, dag_status=0, failed=0,
    )  # fmt: skip
    made = parse(
        text, filename=node.description, cwd=directory, env=inv.env, owner=inv.account, config=inv.knobs(),
        before=node_jobs.before(dag, facts), append=node_jobs.append(dag, facts), check_files=False,
        first_cluster=number + 1, queue_args=None,
    )  # fmt: skip
    if made.count:
        return made
    return parse(
        text, filename=node.description, cwd=directory, env=inv.env, owner=inv.account, config=inv.knobs(),
        before=node_jobs.before(dag, facts), append=node_jobs.append(dag, facts), check_files=False,
        first_cluster=number + 1, queue_args="1",
    )  # fmt: skip


def _written(jobs: Submission) -> Iterator[Path]:
    """The files that come back from a node's jobs, each once; event logs are for many."""
    seen: dict[Path, None] = {}
    for cluster in jobs.clusters:
        for proc in range(min(cluster.count, _JOBS)):
            seen.update(dict.fromkeys(_of_job(cluster.job(proc))))
    return iter(seen)


def _of_job(job: ClassAd) -> Iterator[Path]:
    home = Path(str(job.get("Iwd", "/")))
    if "TransferOutputRemaps" in job:
        return
    for attribute in ("Out", "Err"):
        name = job.get(attribute)
        if isinstance(name, str) and name and name != "/dev/null" and "://" not in name and "$$(" not in name:
            yield home / name
    results = job.get("TransferOutput")
    if isinstance(results, str) and job.get("ShouldTransferFiles") != "NO" and "OutputDestination" not in job:
        for name in results.split(","):
            if (name := name.strip()) and "://" not in name and not name.endswith("/"):
                yield home / Path(name).name


__all__ = ["doubts"]

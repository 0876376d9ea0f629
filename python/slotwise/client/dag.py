"""DAGs from Python: made, checked, submitted, waited for, and asked how their nodes are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from slotwise import environment
from slotwise.client.descriptions import Description, text_of
from slotwise.config import home_of
from slotwise.errors import SubmitError, UsageError

if TYPE_CHECKING:
    from slotwise.dag.locate import Place
    from slotwise.dag.reading import Problem
    from slotwise.dag.replay import View

_NAME = re.compile(r"[^\s+]+")
_RESERVED = frozenset(("parent", "child", "all_nodes"))
_SUBMITTED = re.compile(r"^(\d+)\.0 - \d+\.0$", re.MULTILINE)


class DagNode(Struct, frozen=True):
    """A node of a :class:`Dag`; made by its methods."""

    name: str


class NodeState(Struct, frozen=True):
    """How a node is.

    :ivar state: ``not_ready``, ``ready``, ``prerun``, ``submitted``, ``postrun``, ``done``, ``error`` or ``futile``.
    :ivar details: why it failed.
    :ivar cluster: of its present jobs; None if it has had none.
    :ivar retries: that it has used.
    """

    name: str
    state: str
    details: str = ""
    cluster: int | None = None
    retries: int = 0


class Dag:
    """A DAG that is being made.

    >>> dag = Dag()
    >>> left = dag.node("left", {"executable": "/bin/echo", "arguments": "2", "output": "left.out"}, retries=2)
    >>> right = dag.node("right", {"executable": "/bin/echo", "arguments": "3", "output": "right.out"})
    >>> sum_ = dag.node("sum", "sum.sub", after=[left, right])
    >>> run = dag.submit("my.dag")
    >>> run.wait(timeout_s=3600)
    0
    """

    def __init__(self, *, max_jobs: Mapping[str, int] | None = None) -> None:
        """``max_jobs``: how many nodes of each category may be submitted at once."""
        self._commands: list[str] = []
        self._edges: list[str] = []
        self._names: set[str] = set()
        self._max_jobs = dict(max_jobs or {})

    def node(
        self,
        name: str,
        description: Description | Path,
        *,
        after: Iterable[DagNode] = (),
        after_even_if_failed: Iterable[DagNode] = (),
        vars: Mapping[str, object] | None = None,
        retries: int = 0,
        unless_exit: int | None = None,
        pre: str = "",
        post: str = "",
        hold: str = "",
        pre_skip: int | None = None,
        abort_dag_on: int | None = None,
        priority: int = 0,
        category: str = "",
        directory: str = "",
        noop: bool = False,
        done: bool = False,
    ) -> DagNode:
        """A node.

        :param description: commands of a submit description, its text, or the path of a submit file.
        :param after: nodes that have to succeed before it starts.
        :param after_even_if_failed: nodes that have to end before it starts, be it as failures.
        :param vars: macros for the description.
        :param pre, post, hold: a script and its arguments, run on the access point.
        :raises UsageError: the name is taken or cannot be one, or a value cannot be written into a DAG file.
        """
        after, weak = list(after), list(after_even_if_failed)
        for parent in (*after, *weak):
            if parent.name not in self._names:
                raise UsageError(f"node {parent.name} is of another DAG")
        for text in (pre, post, hold, category, directory, *map(str, (vars or {}).values()), *(vars or {})):
            _line(text)
        self._add("JOB", name, description, directory, " NOOP" * noop + " DONE" * done)
        self._about(name, vars, pre, post, hold)
        if retries:
            self._commands.append(f"RETRY {name} {retries}" + _option("UNLESS-EXIT", unless_exit))
        if pre_skip is not None:
            self._commands.append(f"PRE_SKIP {name} {pre_skip}")
        if abort_dag_on is not None:
            self._commands.append(f"ABORT-DAG-ON {name} {abort_dag_on}")
        if priority:
            self._commands.append(f"PRIORITY {name} {priority}")
        if category:
            self._commands.append(f"CATEGORY {name} {_line(category)}")
        for word, parents in (("PARENT", after), ("WEAK PARENT", weak)):
            if parents:
                self._edges.append(f"{word} {' '.join(one.name for one in parents)} CHILD {name}")
        return DagNode(name)

    def final(self, name: str, description: Description | Path, *, pre: str = "", post: str = "") -> DagNode:
        """The node that runs last, whatever became of the others; its success is that of the DAG."""
        self._add("FINAL", name, description, "", "")
        self._about(name, None, pre, post, "")
        return DagNode(name)

    def sub_dag(
        self, name: str, file: str | Path, *, after: Iterable[DagNode] = (), directory: str = "", retries: int = 0
    ) -> DagNode:
        """A node that is a DAG of its own, in a file."""
        self._check_name(name)
        where = f" DIR {_quoted(directory)}" if directory else ""
        self._commands.append(f"SUBDAG EXTERNAL {name} {_quoted(str(file))}{where}")
        if retries:
            self._commands.append(f"RETRY {name} {retries}")
        if names := [one.name for one in after]:
            self._edges.append(f"PARENT {' '.join(names)} CHILD {name}")
        return DagNode(name)

    def _add(self, word: str, name: str, description: Description | Path, directory: str, options: str) -> None:
        self._check_name(name)
        where = f" DIR {_quoted(directory)}" if directory else ""
        if isinstance(description, str) and "\n" not in description.strip() and "=" not in description:
            description = Path(description)
        if isinstance(description, Path):
            self._commands.append(f"{word} {name} {_quoted(str(description))}{where}{options}")
            return
        text, _ = text_of(description, None)
        token = "END"
        while any(line.lstrip().startswith(f"@{token}") for line in text.splitlines()):
            token += "_"
        self._commands.append(f"{word} {name} @={token}\n{text.rstrip()}\n@{token}{where}{options}")

    def _about(self, name: str, vars: Mapping[str, object] | None, pre: str, post: str, hold: str) -> None:
        for key, value in (vars or {}).items():
            escaped = _line(str(value)).replace("\\", "\\\\").replace('"', '\\"')
            self._commands.append(f'VARS {name} {_line(key)}="{escaped}"')
        for kind, script in (("PRE", pre), ("POST", post), ("HOLD", hold)):
            if script:
                self._commands.append(f"SCRIPT {kind} {name} {_line(script)}")

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise UsageError(f"{name!r} cannot be the name of a node", hint="names have no blanks and no +")
        if name in self._names:
            raise UsageError(f"there is a node {name} already")
        self._names.add(name)

    @property
    def text(self) -> str:
        """The DAG file."""
        limits = [f"MAXJOBS {_line(name)} {most}" for name, most in self._max_jobs.items()]
        return "\n".join([*self._commands, *self._edges, *limits, ""])

    def write(self, path: str | Path) -> Path:
        """Write the DAG file; relative names in it start from the directory from which it is submitted."""
        path = Path(path)
        path.write_text(self.text)
        return path

    def check(self, path: str | Path) -> list[Problem]:
        """Write the DAG file, and say what is wrong with it and with the files that it names."""
        from slotwise.dag import reading

        self.write(path)
        dag = reading.read([str(path)], reading.ReadOptions(str(Path.cwd())))
        found = reading.problems(dag)
        return found + list(reading.doubts(dag, [str(path)], Path.cwd())) if dag.is_valid else found

    def submit(self, path: str | Path, *options: str) -> DagJob:
        """Write the DAG file, check it as ``slotwise dag check`` does, and submit it.

        :param options: of ``slotwise dag submit``, such as ``"-force"``, ``"-maxjobs", "10"``.
        :raises SubmitError: something is wrong with it, or files of a former run are in the way.
        """
        return submit_dag(self.write(path), *options)


def submit_dag(path: str | Path, *options: str) -> DagJob:
    """Check and submit a DAG file; for ``options`` see :meth:`Dag.submit`.

    :raises SubmitError: something is wrong with it, or files of a former run are in the way.
    """
    words = [sys.executable, "-m", "slotwise", "dag", "submit", *options, "-terse", str(path)]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    found = _SUBMITTED.search(done.stdout)
    if done.returncode or found is None:
        raise SubmitError(done.stderr.strip() or done.stdout.strip() or "the DAG was not submitted")
    return DagJob(Path(path), int(found[1]))


class DagJob(Struct, frozen=True):
    """A DAG that was submitted, by its file.

    :ivar path: the DAG file.
    :ivar cluster: of its job; 0: as its files tell.
    """

    path: Path
    cluster: int = 0
    directory: Path = field(default_factory=Path.cwd)

    def _place(self) -> Place:
        from slotwise.dag import locate

        return locate.of_file(self.directory / self.path, str(self.path), self.directory, [])

    def _view(self) -> View:
        from slotwise.dag import replay

        env = environment()
        return replay.view(self._place(), env, home_of(env).root)

    def states(self) -> dict[str, NodeState]:
        """Its nodes by name, as they are now: by the DAG's files, so that it works when the DAG has ended, too."""
        view = self._view()
        found = {}
        for number in view.run.order():
            row, record = view.row(number), view.node(number).record
            cluster = record.cluster if record.cluster > 0 else None
            found[row.name] = NodeState(row.name, row.status.name.lower(), row.details, cluster, row.retries)
        return found

    def why(self, node: str) -> list[str]:
        """Why a node is where it is, in sentences.

        :raises UsageError: there is no such node.
        """
        from slotwise.dag import reasons

        view = self._view()
        return reasons.why(view, view.number(node))

    def wait(self, *, timeout_s: float | None = None) -> int:
        """Wait until the DAG has ended; gives its exit status: 0 for success, and minus a signal.

        :raises BusyError: the DAG's job is held.
        :raises TimeoutError: it has not ended within ``timeout_s``.
        """
        from slotwise.client.schedd import Schedd

        cluster = self.cluster or self._place().cluster
        with Schedd() as schedd:
            (ad,) = schedd.wait(str(cluster), ["ExitCode", "ExitSignal"], timeout_s=timeout_s)
        signal = ad.get("ExitSignal")
        return -signal if isinstance(signal, int) else int(str(ad.get("ExitCode", 2)))

    def halt(self, reason: str = "") -> None:
        """Have it begin no new jobs and PRE scripts."""
        from slotwise.dag import control

        control.halt(self._place(), reason)

    def resume(self) -> None:
        """Have it go on after :meth:`halt`."""
        from slotwise.dag import control

        env = environment()
        control.resume(self._place(), env, home_of(env).root)

    def retry(self, *nodes: str) -> None:
        """Run nodes that failed once more, while the DAG runs.

        :raises UsageError: one cannot be retried; nothing is done then.
        """
        self._order("retry", nodes)

    def skip(self, *nodes: str) -> None:
        """Have nodes count as done, while the DAG runs.

        :raises UsageError: one cannot be skipped; nothing is done then.
        """
        self._order("skip", nodes)

    def _order(self, do: str, nodes: Sequence[str]) -> None:
        from slotwise.dag import control, orders

        view = self._view()
        if not view.is_running:
            raise UsageError(f"{self.path} is not running", hint=f"`slotwise dag {do}` edits its rescue file")
        for name, why in control.order(view, orders.Do(do), [view.number(name) for name in nodes]).items():
            if why:
                raise UsageError(f"node {name}: {why}")


def _option(word: str, value: int | None) -> str:
    return "" if value is None else f" {word} {value}"


def _line(text: str) -> str:
    """A value on one line.

    :raises UsageError: it has more: what follows would be a command of its own.
    """
    if "\n" in text or "\r" in text:
        raise UsageError(f"{text[:40]!r} has more than one line, which a DAG file cannot hold")
    return text


def _quoted(name: str) -> str:
    """A file's name as one word."""
    escaped = _line(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != name or re.search(r"[\s'{]", name) else name


__all__ = ["Dag", "DagJob", "DagNode", "NodeState", "submit_dag"]

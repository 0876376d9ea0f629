"""Runs of DAGs whose ends HTCondor was asked for (conformance/dags/runs.jsonl), played on a pool and read as they were
recorded.

Each case has the user's files, the steps that are done, and what is looked at afterwards: what the submission said, how
the runs of the DAG's job ended, its ad, the nodes as their log has them, the messages of X.dagman.out, and the files
that were written. Dates, clusters and directories are masked. Pauses of the recordings are waits for what they waited
for.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.dags import Place, place_on
from tests.support.pool import Pool

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "conformance" / "dags" / "runs.jsonl").read_text().splitlines()
]
#: What the recordings have of the ad of a DAG's job.
_AD = (
    "DAG_NodesTotal", "DAG_NodesDone", "DAG_NodesPrerun", "DAG_NodesQueued", "DAG_NodesPostrun", "DAG_NodesReady",
    "DAG_NodesUnready", "DAG_NodesFailed", "DAG_NodesFutile", "DAG_Status", "DAG_InRecovery", "DAG_JobsSubmitted",
    "DAG_JobsCompleted", "DAG_JobsIdle", "DAG_JobsHeld", "DAG_JobsRunning", "ExitCode", "JobStatus",
)  # fmt: skip
_EVENT = re.compile(r"(\d{3}) \((-?\d+)\.(-?\d+)\.(-?\d+)\) \S+ \S+ ?(.*)")
_DATE = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b")
_MESSAGE = re.compile(r"ERROR|Error|WARNING|Warning|Processing error|Failed to parse|DAG marked|Exiting because")
#: Files whose being there was not recorded.
_UNLISTED = re.compile(r"\.dagman\.out$|\.lib\.(out|err)$|\.temp$|^\.")


class Event:
    """An entry of an event log."""

    def __init__(self, head: re.Match[str], text: str) -> None:
        self.number, self.cluster, self.proc, self.subproc = (int(head[n]) for n in range(1, 5))
        self.text = text

    @property
    def is_end(self) -> bool:
        """Whether a job has left the queue by it."""
        return self.number in (5, 9)

    @property
    def end(self) -> str:
        """How a job or a script has ended."""
        if self.number == 9:
            return "removed"
        if exited := re.search(r"return value (-?\d+)", self.text):
            return f"exit {exited[1]}"
        killed = re.search(r"signal (\d+)", self.text)
        return f"signal {killed[1]}" if killed else "?"

    @property
    def node(self) -> str | None:
        """The node that it names."""
        found = re.search(r'DAGNodeName = "([^"]*)"', self.text) or re.search(r"DAG Node: (\S+)", self.text)
        return found[1] if found else None


def events(log: str) -> Iterator[Event]:
    """The entries of a log, in its order."""
    for block in log.split("\n...\n"):
        if head := _EVENT.match(block.lstrip("\n")):
            yield Event(head, block)


class NodesLog:
    """What the log of a DAG's nodes says of them.

    :ivar order: the nodes in the order of their submissions.
    :ivar together: the sets of nodes that had jobs in the queue at once.
    """

    def __init__(self) -> None:
        self.order: list[str] = []
        self.together: list[set[str]] = []
        self._nodes: dict[str, dict[str, Any]] = {}
        self._clusters: dict[str, set[tuple[int, int]]] = {}
        self._span: dict[str, list[int]] = {}
        self._entries = 0

    def read(self, log: str) -> None:
        """Take a log. Jobs of nodes that have none (cluster 0) are told by their third number."""
        names: dict[tuple[int, int], str] = {}
        queued: set[tuple[str, int, int, int]] = set()
        for event in events(log):
            self._entries += 1
            job = (event.cluster, 0 if event.cluster else event.subproc)
            if event.number in (0, 29, 16) and (named := event.node):
                names[job] = named
            if (name := names.get(job)) is None:
                continue
            process = (name, event.cluster, event.proc, event.subproc)
            self._take(event, name, job)
            if event.number == 0:
                queued.add(process)
                self.together.append({name for name, *_ in queued})
            elif event.is_end:
                queued.discard(process)

    def _take(self, event: Event, name: str, job: tuple[int, int]) -> None:
        node = self._nodes.setdefault(
            name, {"procs": 0, "ends": [], "held": 0, "released": 0, "post": [], "pre_skip": 0}
        )
        span = self._span.setdefault(name, [self._entries, self._entries])
        clusters = self._clusters.setdefault(name, set())
        if event.number == 0:
            if job not in clusters:
                self.order.append(name)
            clusters.add(job)
            node["procs"] += 1
        elif event.is_end:
            node["ends"].append((event.proc, event.end))
        elif event.number == 16:
            node["post"].append(event.end)
        elif counted := {12: "held", 13: "released", 29: "pre_skip"}.get(event.number):
            node[counted] += 1
        if event.is_end or event.number in (16, 29):
            span[1] = self._entries

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Of each node: submissions, jobs, their ends (of one submission by their numbers), and what else there was."""
        made = {}
        for name, node in sorted(self._nodes.items()):
            submits = len(self._clusters[name])
            ends = sorted(node["ends"], key=lambda end: int(end[0])) if submits <= 1 else node["ends"]
            others = {key: node[key] for key in ("held", "released", "post", "pre_skip") if node[key]}
            made[name] = {"submits": submits, "procs": node["procs"], "ends": [end for _, end in ends], **others}
        return made

    def broken(self, rules: Sequence[str]) -> list[str]:
        """The rules A<B that do not hold: A's last event is before B's first."""
        pairs = [(rule, *rule.split("<")) for rule in rules]
        both = [(rule, a, b) for rule, a, b in pairs if a in self._span and b in self._span]
        return [rule for rule, a, b in both if self._span[a][1] >= self._span[b][0]]

    def peak(self, nodes: Sequence[str]) -> int:
        """How many of some nodes had jobs in the queue at once."""
        return max((len(found & set(nodes)) for found in self.together), default=0)


class Reader:
    """Reads files as the recordings have them. ``directory``: of the case, which is masked."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def masked(self, text: str) -> str:
        """Without directories, dates and clusters."""
        text = text.replace(self._directory, "@WORK@")
        text = re.sub(r"(submitted to cluster |-clusters? )\d+", r"\1<C>", text)
        text = _DATE.sub("<DATE>", text)
        text = re.sub(r"# Created \d+/\d+/\d{4} \d\d:\d\d:\d\d UTC", "# Created <DATE>", text)
        text = re.sub(r"\([1-9]\d*\.(\d+)(\.\d+)?\)", lambda m: f"(<C>.{m[1]}{'.0' if m[2] else ''})", text)
        text = re.sub(r"\(0\.\d+(\.\d+)?\)", lambda m: f"(0.<P>{'.0' if m[1] else ''})", text)
        return re.sub(r"\b1[78]\d{8}\b", "<T>", text).rstrip("\n")

    def lines(self, text: str) -> list[str]:
        """Its lines, masked."""
        return self.masked(text).split("\n") if text else []

    def read(self, text: str, how: str) -> object:
        """A file that is there. ``how``: what kind it is of."""
        if how == "exists":
            return True
        if how == "sorted":
            return sorted(self.lines(text))
        if how == "status":
            return self.lines(re.sub(r"= \d{10};", "= <T>;", text))
        if how.startswith("jobstate"):
            return self._jobstate(text, numbered=how.endswith("seq"))
        if how == "metrics":
            varying = ("version", "start_time", "end_time", "duration", "dagman_id", "parent_dagman_id")
            found = json.loads(text)
            return found | {key: "<>" for key in varying if found.get(key) not in (None, "")}
        if how == "sub":
            return self._description(text)
        assert how == "lines", how
        return self.lines(text)

    def _jobstate(self, text: str, *, numbered: bool) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for line in text.splitlines():
            _, node, rest = line.split(" ", 2)
            if node == "INTERNAL":
                made.setdefault(node, []).append(re.sub(r" \d+\.\d+ ", " <C>.0 ", rest))
            else:
                words = rest.split(" ")
                words[1] = re.sub(r"^[1-9]\d*\.", "<C>.", words[1])
                made.setdefault(node, []).append(" ".join(words if numbered else words[:-1]))
        return made

    def _description(self, text: str) -> dict[str, str]:
        made = OrderedDict()
        for line in self.lines(text):
            if line.strip() and not line.startswith("#"):
                key, _, value = (part.strip() for part in line.partition("="))
                value = "<DAGMAN>" if key == "executable" else value
                value = re.sub(r"-CsdVersion .*? '\$", "-CsdVersion <VERSION>", value)
                value = re.sub(r'-dagman \S+?(?=[ "])', "-dagman <DAGMAN>", value)
                made[key] = re.sub(r" ?_CONDOR_SCHEDD_(?:ADDRESS|DAEMON_AD)_FILE=[^ \"]*", "", value)
        return made


class Player:
    """Plays one case on a pool."""

    def __init__(self, pool: Pool, case: dict[str, Any]) -> None:
        self._pool, self._case = pool, case
        self._place: Place = place_on(pool)
        self._work = self._place.work
        self._reader = Reader(self._work)
        self._cluster = ""
        self._submissions: list[dict[str, object]] = []
        self._views: list[list[str]] = []
        for name, text in case["files"].items():
            self._write(name, text)

    def play(self) -> dict[str, object]:
        """Do its steps; gives what is to be seen then.

        :raises AssertionError: what a step waits for does not come.
        """
        for step in self._case["steps"]:
            words = {key: value for key, value in step.items() if key != "do"}
            getattr(self, f"_{step['do']}")(**words)
        return self._seen()

    # ------------------------------------------------------------------------------------------------------ the steps

    def _submit(self, args: list[str], dag: str = "x.dag") -> None:
        again = not {"-f", "-force"} & set(args)
        self._log = f"{dag}.dagman.log"
        self._ended_before = self._count_ends() if again else 0
        done = self._pool.run("condor_submit_dag", *args, cwd=self._work, check=False)
        found = re.search(r"submitted to cluster (\d+)", done.stdout)
        self._cluster = found[1] if found else ""
        said: dict[str, object] = {"rc": done.returncode, "stdout": self._reader.lines(done.stdout)}
        if done.returncode:
            said["stderr"] = [line for line in self._reader.lines(done.stderr) if line.strip()]
        self._submissions.append(said)

    def _count_ends(self) -> int:
        return sum(event.is_end for event in events(self._text(self._log)))

    def _wait(self) -> None:
        if self._cluster:
            self._until("the DAG is over", lambda: self._count_ends() > self._ended_before)

    def _wait_for(self, file: str, regex: str = "", count: int = 1) -> None:
        def there() -> bool:
            return (self._work / file).exists() and len(re.findall(regex, self._text(file), re.M)) >= count

        self._until(f"{file} has {regex!r}", there)

    def _until(self, what: str, true: Any) -> None:
        def told() -> str:
            return "\n".join(
                self._text(f"{self._case['dag']}.{name}") for name in ("dagman.out", "lib.err", "nodes.log")
            )

        try:
            self._pool.until(f"{self._case['name']}: {what}", true)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{told()}") from error

    def _write(self, file: str, text: str = "") -> None:
        path = self._work / file
        owner, group = self._work.owner(), self._work.group()
        for above in reversed(path.relative_to(self._work).parents):
            if not (self._work / above).exists():
                (self._work / above).mkdir()
                shutil.chown(self._work / above, owner, group)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
        shutil.chown(path, owner, group)

    def _delete(self, file: str) -> None:
        (self._work / file).unlink()

    def _jobs(self, node: str | None) -> list[str]:
        if node is None:
            return [self._cluster]
        return ["-constraint", f'DAGManJobId == {self._cluster} && DAGNodeName == "{node}"']

    def _rm(self, what: str = "dag", node: str | None = None) -> None:
        self._pool.run("rm", *self._jobs(node))

    def _hold(self, what: str = "dag", node: str | None = None) -> None:
        self._pool.run("hold", *self._jobs(node))

    def _release(self, what: str = "dag", node: str | None = None) -> None:
        self._pool.run("release", *self._jobs(node))

    def _qedit(self, node: str, attr: str, value: str) -> None:
        self._pool.run("qedit", *self._jobs(node), attr, value)

    def _kill(self) -> None:
        os.kill(self._place.runner(), signal.SIGKILL)

    def _q(self, args: list[str], keep: str = "", mask: Sequence[tuple[str, str]] = ()) -> None:
        shown = self._pool.run("q", *(word.replace("@DAG@", self._cluster) for word in args)).stdout
        lines = [line for line in self._reader.lines(shown) if re.search(keep, line)]
        for pattern, text in mask:
            lines = [re.sub(pattern, text, line) for line in lines]
        self._views.append(lines)
        (self._work.parent / "seen").touch()  # what a job may wait for, so that it is the same one that is seen

    # ----------------------------------------------------------------------------------------------------- what is seen

    def _text(self, name: str) -> str:
        path = self._work / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _seen(self) -> dict[str, object]:
        case, seen = self._case, dict[str, object]()
        seen["submit"] = self._submissions
        if self._views:
            seen["views"] = self._views
        if self._cluster:
            seen |= self._seen_of_run()
        if case.get("messages"):
            seen["messages"] = self._messages()
        if files := case["read"]:
            there = {name: (self._work / name).exists() for name in files}
            seen["files"] = {
                name: self._reader.read(self._text(name), how) if there[name] else None for name, how in files.items()
            }
        seen["produced"] = sorted(
            name
            for name in (str(path.relative_to(self._work)) for path in self._work.rglob("*") if path.is_file())
            if name not in case["files"] and not _UNLISTED.search(name)
        )
        return seen

    def _seen_of_run(self) -> dict[str, object]:
        case, seen = self._case, dict[str, object]()
        seen["ends"] = [event.end for event in events(self._text(self._log)) if event.is_end]
        if case.get("ad", True):
            names = [name for name in _AD if name not in case.get("ad_skip", ())] + case.get("ad_more", [])
            row = self._history(names, self._cluster, "-limit", "1")[0]
            seen["ad"] = dict(zip(names, shlex.split(self._reader.masked(row), posix=False), strict=True))
        log = NodesLog()
        for name in case.get("nodes_logs", [f"{case['dag']}.nodes.log"]):
            log.read(self._text(name))
        if not case.get("no_nodes"):
            seen["nodes"] = log.nodes()
        if case.get("submit_order"):
            seen["submit_order"] = log.order
        if rules := case.get("order"):
            seen["order_broken"] = log.broken(rules)
        if sets := case.get("peak"):
            seen["peak"] = {name: log.peak(nodes) for name, nodes in sets.items()}
        if names := case.get("job_attrs"):
            most = len(case["expected"]["job_ads"])
            rows = self._history(["DAGNodeName", *names], "-constraint", f"DAGManJobId == {self._cluster}", most=most)
            seen["job_ads"] = sorted(self._reader.masked(row).replace(f" {self._cluster} ", " <DAG> ") for row in rows)
        return seen

    def _history(self, names: list[str], *which: str, most: int = 1) -> list[str]:
        """Rows of the history; the schedd writes them behind the jobs' ends."""
        rows: list[str] = []

        def there() -> bool:
            rows[:] = self._pool.run("history", *which, "-af:V", *names).stdout.splitlines()
            return len(rows) >= most

        self._until("its jobs are in the history", there)
        return rows

    def _messages(self) -> list[str]:
        """Errors and warnings of X.dagman.out, each once, without their times."""
        lines = (
            re.sub(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d ", "", line) for line in self._text("x.dag.dagman.out").split("\n")
        )
        return list(dict.fromkeys(self._reader.masked(line) for line in lines if _MESSAGE.match(line)))


def compared(seen: dict[str, Any]) -> dict[str, Any]:
    """What is compared: said lines without regard to their order, which differs on a pipe and a terminal, messages
    without regard to blanks and the case of letters."""
    made: dict[str, Any] = json.loads(json.dumps(seen))
    for said in made["submit"]:
        said |= {key: sorted(map(_plain, said[key])) for key in ("stdout", "stderr") if key in said}
    if "messages" in made:
        made["messages"] = [_plain(line) for line in made["messages"]]
    return made


def _plain(line: str) -> str:
    return " ".join(line.split()).lower()


__all__ = ["CASES", "Player", "compared"]

"""DAGs of a user on a real pool of that user."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support import host
from tests.support.accounts import host_users
from tests.support.pool import Pool
from tests.support.users_pool import UsersPool

CONFIG = """
NUM_CPUS = 4
NEGOTIATOR_INTERVAL = 1
SCHEDULER_UNIVERSE_COOL_DOWN_DURATION = 1
DAGMAN_QUEUE_UPDATE_INTERVAL = 1
DAGMAN_HOLD_CLAIM_TIME = 0
"""
TRUE = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16M\nrequest_disk = 1M\nqueue\n"
DIAMOND = "JOB A a.sub\nJOB B a.sub\nJOB C a.sub\nJOB D a.sub\nPARENT A CHILD B C\nPARENT B C CHILD D\n"


class Place:
    """A directory of a user's DAG on a pool of that user."""

    def __init__(self, pool: Pool, work: Path) -> None:
        self.pool, self.work = pool, work

    def write(self, **files: str) -> None:
        """Files, ``_`` in the name for the point; those with ``#!`` may be run."""
        for name, text in files.items():
            path = self.work / name.replace("_", ".")
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)

    def submit(self, *words: str) -> int:
        done = self.pool.run("dag", "submit", *words, cwd=self.work)
        return int(re.findall(r"submitted to cluster (\d+)", done.stdout)[0])

    def text(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""

    def ended(self, times: int = 1) -> None:
        """Wait until the DAG's job has left the queue."""
        with self._shown():
            self.pool.until(
                "the DAG is over", lambda: len(re.findall("^00[59] ", self.text("x.dag.dagman.log"), re.M)) >= times
            )

    def until(self, what: str, name: str, pattern: str) -> None:
        with self._shown():
            self.pool.until(what, lambda: re.search(pattern, self.text(name), re.M))

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            print(self.text("x.dag.dagman.out"), self.text("x.dag.lib.err"), self.text("x.dag.nodes.log"))
            raise

    def runner(self) -> int:
        """The process that runs the DAG."""
        found = runners(self.work)
        assert found, "no process runs the DAG"
        return found[0]

    def submissions(self) -> list[str]:
        """The nodes in the order in which the nodes' log has their submissions."""
        return re.findall(r'^000 .*\n.*(?:DAGNodeName = "|DAG Node: )([\w+]+)', self.text("x.dag.nodes.log"), re.M)

    def past(self, cluster: int, *names: str) -> list[str]:
        """Attributes of the DAG's job, which has ended."""

        def found() -> list[str]:
            return self.pool.run("history", str(cluster), "-af", *names).stdout.split()

        self.pool.until("it is in the history", found)
        return found()


def runners(directory: Path) -> list[int]:
    """The processes that run DAGs in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").resolve() == directory:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if any(word.endswith(b".dag.lock") for word in words):
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def pool_of_a_user(config: str = "") -> Iterator[Pool]:
    """A pool for DAGs, which runs; ``config``: more of its configuration."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slotwise-dags-", dir="/var/tmp")))
        root.chmod(0o755)
        if os.geteuid() == 0:  # root's jobs do not run on access points
            host.need(host.open_installation)
            (user,) = stack.enter_context(host_users("dora"))
            pool: Pool = UsersPool(user, root, CONFIG + config)
        else:
            pool = Pool(root, CONFIG + config)
        try:
            pool.up()
            yield pool
        finally:
            pool.run("down", "--fast", check=False)


def place_on(pool: Pool) -> Place:
    """A new directory of the user."""
    work = Path(tempfile.mkdtemp(prefix="dag-", dir=pool.root))
    shutil.chown(work, pool.root.owner(), pool.root.group())
    return Place(pool, work)

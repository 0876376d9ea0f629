"""The rows of runs: of those on slots, and of those on the access point itself.

The table ``runs`` has both; those of the nodes of parallel jobs are in ``nodes``. What a run has come to stands in one
column, ``facts``, as three words: when the run began, when its job began to execute (epoch seconds; 0: not yet), and a
third that differs between the two kinds. Words that a former version did not write are missing.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

#: The columns: cluster, proc, id of the run, token, claim, facts.
RunColumns: TypeAlias = tuple[int, int, str, str, str, str]
#: Those of a node: cluster, proc, number of the node, id of the gang, then as above from the run's id on, and its end.
NodeColumns: TypeAlias = tuple[int, int, int, str, str, str, str, str, str]


class StoredRun(Struct, frozen=True):
    """The row of a run on a slot, by which its starter and its claim are recognized after a restart."""

    cluster: int
    proc: int
    run_id: str
    token: str
    claim: str
    born_at: float
    executing_at: float = 0.0
    #: Event 022 is written, and 023 is due when its starter is back.
    disconnect_logged: bool = False

    def columns(self) -> RunColumns:
        """The row as the table has it."""
        facts = _facts(self.born_at, self.executing_at, str(int(self.disconnect_logged)))
        return self.cluster, self.proc, self.run_id, self.token, self.claim, facts


class StoredNode(Struct, frozen=True):
    """The row of a parallel job's node: its run, and how that ended once it is over."""

    run: StoredRun
    node: int
    gang: str
    #: See :func:`slotwise.schedd.parallel.node_ends.to_text`; "" while the run is not over.
    end: str = ""

    def columns(self) -> NodeColumns:
        """The row as the table has it."""
        cluster, proc, *others = self.run.columns()
        run_id, token, claim, facts = others
        return cluster, proc, self.node, self.gang, run_id, token, claim, facts, self.end


def stored_node(columns: NodeColumns) -> StoredNode:
    """A row of the table."""
    cluster, proc, node, gang, run_id, token, claim, facts, end = columns
    born, executing, logged = facts.split(" ")
    run = StoredRun(cluster, proc, run_id, token, claim, float(born), float(executing), logged == "1")
    return StoredNode(run, node, gang, end)


class StoredLocalRun(Struct, frozen=True):
    """The row of a run on the access point itself. It has no starter that shows a token, and no claim."""

    cluster: int
    proc: int
    run_id: str
    #: 0: not known.
    born_at: float
    executing_at: float = 0.0
    #: The directory in which its keeper's control directory lies, or "".
    control_root: str = ""

    def columns(self) -> RunColumns:
        """The row as the table has it."""
        facts = _facts(self.born_at, self.executing_at, self.control_root)
        return self.cluster, self.proc, self.run_id, "", "", facts


def stored_run(columns: RunColumns) -> StoredRun | StoredLocalRun:
    """A row of the table."""
    cluster, proc, run_id, token, claim, facts = columns
    words = facts.split(" ", 2)
    born, executing, third = words + ["", "", ""][len(words) :]
    born_at, executing_at = float(born or 0), float(executing or 0)
    if not token and not claim:
        return StoredLocalRun(cluster, proc, run_id, born_at, executing_at, third)
    return StoredRun(cluster, proc, run_id, token, claim, born_at, executing_at, third == "1")


def _facts(born_at: float, executing_at: float, third: str) -> str:
    return f"{born_at:.3f} {executing_at:.3f} {third}"

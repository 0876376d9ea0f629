"""What a run is of: its DAG files, its place, and its job. Data."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct


class Plan(Struct, frozen=True):
    """What a run is of.

    :ivar directory: where the DAG's job runs, absolute.
    :ivar files: the DAG files, as they were named.
    :ivar cluster: of the DAG's job.
    :ivar batch: JobBatchName.
    :ivar version: the release, for the metrics file.
    :ivar parent: cluster of the DAG that this one is a node of; "" for none.
    :ivar rescue: the number of the rescue file that it goes on from; 0 for none.
    :ivar recovers: it goes on where a former runner was ended.
    :ivar was_halted: and that one was halted.
    :ivar owner: whose job it is.
    :ivar node: the node of the parent that it is; "" for none.
    :ivar inherited: attributes that its jobs get.
    :ivar submit_dag: the program that writes submit descriptions of sub-DAGs, and the options that it is given.
    :ivar force: sub-DAGs begin anew, too.
    """

    directory: Path
    files: tuple[str, ...]
    cluster: int
    batch: str
    version: str
    parent: str = ""
    rescue: int = 0
    recovers: bool = False
    was_halted: bool = False
    owner: str = ""
    node: str = ""
    inherited: dict[str, str] = {}
    submit_dag: str = "condor_submit_dag"
    handed_on: tuple[str, ...] = ()
    force: bool = False

    @property
    def primary(self) -> str:
        """The DAG file that gives the other files their names."""
        return self.files[0]

    def nodes_log(self, pattern: str) -> Path:
        """The event log of the nodes' jobs, absolute. ``pattern``: DAGMAN_DEFAULT_NODE_LOG."""
        values = {
            "@(DAG_DIR)": str(Path(self.primary).parent), "@(DAG_FILE)": Path(self.primary).name,
            "@(CLUSTER)": str(self.cluster), "@(OWNER)": self.owner, "@(NODE_NAME)": self.node,
        }  # fmt: skip
        for macro, value in values.items():
            pattern = pattern.replace(macro, value)
        return Path(os.path.normpath(self.directory / pattern))


__all__ = ["Plan"]

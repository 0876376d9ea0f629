"""The DAG that a caller names: by a DAG file, or by the id of the DAG's job."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from slotwise.dag import locate, replay
from slotwise.dag.locate import ATTRIBUTES, Place
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.model.job_id import JobId

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.replay import View


def add_argument(parser: ArgumentParser) -> None:
    """The argument that names a DAG."""
    parser.add_argument("dag", metavar="DAG", help="a DAG file, or the id of a DAG's job")


def place(word: str, inv: Invocation) -> Place:
    """Where the DAG is, and what its job was told.

    :raises NotFoundError: there is no such DAG.
    """
    job = JobId.match(word)
    if job is not None and job.first.proc == 0 and not inv.path(word).exists():
        ad = _ad(job.cluster, inv)
        if ad is None:
            raise NotFoundError(
                f"there is no job {job.cluster} in the queue or in the history", hint="or name the DAG file"
            )
        return locate.of_job(ad)
    found = locate.of_file(inv.path(word), word, inv.cwd, [])
    if not found.cluster or locate.is_running(found):
        return found
    with contextlib.suppress(SlotwiseError):  # without a pool its files tell what there is to tell
        return Place(found.directory, found.options, found.cluster, _ad(found.cluster, inv))
    return found


def view(word: str, inv: Invocation) -> View:
    """The DAG's state."""
    return replay.view(place(word, inv), inv.env, inv.home.root)


def _ad(cluster: int, inv: Invocation) -> ClassAd | None:
    """The ad of a DAG's job, from the queue or else from the history; None for none."""
    from slotwise.client import Schedd

    with Schedd(env=inv.env) as schedd:
        found = schedd.query(f"ClusterId == {cluster}", ATTRIBUTES, limit=1)
        found = found or schedd.history(f"ClusterId == {cluster}", ATTRIBUTES, limit=1)
    return found[0] if found else None


__all__ = ["add_argument", "place", "view"]

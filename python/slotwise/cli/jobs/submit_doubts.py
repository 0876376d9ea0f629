"""What `slotwise submit` looks at for people, so that a job that cannot run is not found out hours later.

It warns and queues: of requests that have no value or that no slot of the pool can meet, of directories for results and
event logs that are not there, and of scripts that name no interpreter. Under HTCondor's name nothing is said, as there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import SlotwiseError
from slotwise.submit import doubts

if TYPE_CHECKING:
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation
    from slotwise.submit import Submission

#: How long the collector may take to answer: the jobs are queued already, and their submitter waits.
_PATIENCE_S = 3.0
#: Of so many clusters the first jobs are looked at.
_MOST = 100


def before(submission: Submission) -> list[str]:
    """What is doubtful about the first job of each cluster by itself, and where its files are to be."""
    found: list[str] = []
    for job in _first_jobs(submission):
        found += doubts.without_value(job)
        found += _no_directory(job)
        if (fault := _no_interpreter(job)) is not None:
            found.append(fault)
    return list(dict.fromkeys(found))


def _first_jobs(submission: Submission) -> list[ClassAd]:
    return [cluster.job(0) for cluster in submission.clusters[:_MOST] if cluster.count]


def _place(job: ClassAd, attribute: str) -> Path | None:
    name = job.get(attribute)
    if not isinstance(name, str) or not name or "://" in name or "$$(" in name:
        return None
    return Path(str(job.get("Iwd", "/")), name)


def _no_directory(job: ClassAd) -> list[str]:
    found = []
    for attribute, command in (("UserLog", "log"), ("Out", "output"), ("Err", "error")):
        place = _place(job, attribute)
        if place is not None and not place.parent.is_dir() and "TransferOutputRemaps" not in job:
            found.append(
                f"{command} = {job.get(attribute)}: its directory does not exist; unless it is made before the job "
                f"starts, the job is held (mkdir -p {place.parent})"
            )
    return found


def _no_interpreter(job: ClassAd) -> str | None:
    """A program that is sent along and that no kernel would run: neither a binary nor a script with ``#!``."""
    program = _place(job, "Cmd")
    if program is None or job.get("TransferExecutable") is False or job.get("JobUniverse") not in (5, 7, 12):
        return None
    try:
        if not program.is_file():
            return None
        with program.open("rb") as stream:
            head = stream.read(64)
    except OSError:
        return None
    if not head or head.startswith((b"#!", b"\x7fELF")) or b"\0" in head:
        return None
    return (
        f"{program} is a script whose first line names no interpreter; unless its format is known to the execution "
        "points, the job is held (begin it with #!/bin/sh, or what it is written in)"
    )


def after(submission: Submission, inv: Invocation) -> list[str]:
    """What no slot of the pool can meet; nothing where the collector does not answer at once, or knows no slots."""
    asked = [doubts.Asked.of_job(job) for job in _first_jobs(submission)]
    most: dict[str, float] | None = None
    suspect = []
    for one in dict.fromkeys(tuple(sorted(each.amounts.items())) for each in asked):
        each = doubts.Asked(dict(one))
        if most is None and not _slots(inv, doubts.fits_condition(each), limit=1):
            most = doubts.largest(_slots(inv, "true"))
        suspect.append(each)
    return doubts.beyond(suspect, most) if most and any(most.values()) else []


def _slots(inv: Invocation, condition: str, limit: int = 0) -> list[ClassAd]:
    import grpc

    from slotwise.table import unpack_ads
    from slotwise.wire.gen import collector_pb2_grpc, common_pb2

    query = common_pb2.AdQuery(
        kind="Machine",
        constraint=condition,
        projection=list(doubts.SLOT_ATTRIBUTES),
        limit=limit,
        form=common_pb2.AdQuery.PACK,
    )
    try:
        stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
        pieces = stub.Query(query, timeout=_PATIENCE_S)
        return [ad for piece in pieces if piece.data for ad in unpack_ads(piece.data)]
    except (grpc.RpcError, SlotwiseError):  # the jobs are queued: what cannot be asked is not their submitter's trouble
        return []

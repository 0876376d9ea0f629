"""`slotwise submit -wait`: what became of the jobs that were queued."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.classad import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.client import JobStatus, Schedd

#: The exit status when a job did not end well, as with ``slotwise wait -check``.
NOT_WELL = 3
#: How many of the jobs that did not end well are named.
_MOST_NAMED = 10


def until_ended(clusters: Sequence[int], address: str | None, inv: Invocation) -> int:
    """Wait for the jobs of these clusters, say how they ended, and return the exit status of the command.

    :raises BusyError: all that are left are held.
    """
    with Schedd(
        inv.home.root, env=inv.env, pool=inv.pool, name=inv.daemon_name, address=address and address.strip("<>")
    ) as schedd:
        named = [str(cluster) for cluster in clusters]
        ended = schedd.wait(named, ["JobStatus", "ExitCode", "ExitSignal", "ExitBySignal"])
    failures = failed(ended)
    for text in failures[:_MOST_NAMED]:
        inv.err(text)
    if len(failures) > _MOST_NAMED:
        inv.err(f"... and {len(failures) - _MOST_NAMED} more")
    inv.out(f"{len(ended)} job(s) ended, {len(failures) or 'none'} of them with a failure.")
    return NOT_WELL if failures else 0


def failed(ended: Sequence[ClassAd]) -> list[str]:
    """A line for each job that was removed, killed by a signal, or exited with another status than 0, by their ids."""
    found = []
    for ad in ended:
        job = (int(str(ad["ClusterId"])), int(str(ad["ProcId"])))
        if ad.get("JobStatus") == JobStatus.REMOVED:
            found.append((job, "was removed"))
        elif ad.get("ExitBySignal") is True:
            found.append((job, f"was killed by signal {ad.get('ExitSignal')}"))
        elif ad.get("ExitCode") != 0:
            found.append((job, f"exited with {ad.get('ExitCode')}"))
    return [f"Job {cluster}.{proc} {how}" for (cluster, proc), how in sorted(found)]

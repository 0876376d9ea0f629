"""The histories that a daemon keeps beside its host's logs: fetched whole, and read by the caller.

A startd records the jobs that ran on its machine (STARTD_HISTORY), a schedd now and then its own ad
(SCHEDD_DAEMON_HISTORY). Fetching either needs ADMINISTRATOR, as fetching a log does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slotwise.classad import ClassAd, ExprTree, parse_ads
from slotwise.client.ad_list import AdList
from slotwise.client.call import Call, NewestPieces
from slotwise.model.job_id import last_of_history
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

#: As much of a history as is read, in bytes: the newest.
MOST = 256 << 20
#: The line that stands behind each record.
_BANNER = re.compile(rb"^\*\*\*[^\n]*\n?", re.MULTILINE)


def history(name: str, constraint: str, projection: Sequence[str], limit: int, since: str) -> Call[AdList]:
    """Records of the history that the knob ``name`` names, newest first.

    :param limit: 0: no limit.
    :param since: a job, a cluster or an expression at which it ends; empty: nothing.
    :raises AdSyntaxError: ``constraint`` or ``since`` is not an expression.
    """
    wanted = ExprTree(constraint) if constraint else None
    end = _end(since)
    return Call(
        "FetchLog",
        request(name),
        lambda pieces: chosen(pieces, wanted, projection, limit, end),
        many=True,
        timeout_s=None,
        service=daemon_pb2_grpc.DaemonStub,
        gather=lambda: NewestPieces(MOST),
    )


def chosen(
    pieces: NewestPieces, wanted: ExprTree | None, projection: Sequence[str], limit: int, end: ExprTree | None
) -> AdList:
    """The records for which ``wanted`` is true, newest first, up to the first for which ``end`` is."""
    found = AdList()
    for ad in newest_first(pieces):
        if end is not None and end.eval(ad) is True:
            break
        if wanted is None or wanted.eval(ad) is True:
            found.append(ad)
            if len(found) == limit:
                break
    return AdList(unpack_ads(AdTable.of(found).query(None, projection))) if projection else found


def request(name: str) -> daemon_pb2.FetchLogRequest:
    """What asks a daemon for the history that the knob ``name`` names."""
    return daemon_pb2.FetchLogRequest(name=name)


def newest_first(pieces: NewestPieces) -> Iterator[ClassAd]:
    """The records of a history as a daemon sent it, the last one first."""
    bodies = _BANNER.split(b"".join(piece.data for piece in pieces))
    for body in reversed(bodies[1:] if pieces.is_cut else bodies):  # the oldest may lack its beginning
        if body.strip():
            yield from reversed(list(parse_ads(body)))


def _end(since: str) -> ExprTree | None:
    if not since:
        return None
    return ExprTree(last_of_history(since))

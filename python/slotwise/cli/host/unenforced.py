"""What this host does not keep its jobs from, for the person who has just started a pool on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotwise.classad import ClassAd
from slotwise.errors import DeniedError, SlotwiseError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

#: How long the startd may take to answer, seconds; `up` has done its work by then.
_PATIENCE_S = 3.0
_LIMITS = (("EnforcesMemory", "memory"), ("EnforcesCpuShare", "CPU"), ("EnforcesDisk", "disk"))


def notes(slots: Sequence[ClassAd]) -> list[str]:
    """A sentence about the limits that are not enforced, from the ads of a host's slots; none where all are, or where
    the ads do not say."""
    lacking = [word for attribute, word in _LIMITS if slots and slots[0].get(attribute) is False]
    if "memory" not in lacking:
        return []
    which = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
    return [
        f"{which} limits of jobs are not enforced here: a job may use more than it asks for (`slotwise status -af "
        "EnforcementGaps` says why"
        f"{'' if os.geteuid() == 0 else '; with root, or a delegated cgroup, they are'}; "
        "`use POLICY : Hold_If_Memory_Exceeded` in the configuration has jobs that use more memory held)"
    ]


def unenforced(inv: Invocation) -> list[str]:
    """The same from this host's startd, or why this user's commands will not reach it; nothing where it does not answer
    at once."""
    import grpc

    from slotwise.table import unpack_ads
    from slotwise.wire.gen import common_pb2, startd_pb2_grpc

    query = common_pb2.AdQuery(
        kind="Machine", projection=[attribute for attribute, _ in _LIMITS], limit=1, form=common_pb2.AdQuery.PACK
    )
    try:
        pieces = inv.stub(startd_pb2_grpc.StartdStub, "startd").Query(query, timeout=_PATIENCE_S)
        return notes([ad for piece in pieces if piece.data for ad in unpack_ads(piece.data)])
    except DeniedError as error:  # every command of this user will be told the same
        return [f"commands cannot reach the daemons: {error}"]
    except (grpc.RpcError, SlotwiseError):
        return []

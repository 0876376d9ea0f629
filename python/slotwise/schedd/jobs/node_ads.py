"""The ad of a parallel job as one of its nodes gets it. Pure."""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.values import Value

#: What stands for ``$(NODE)`` in the ad of a parallel job until a node starts.
NODE_MARK = "#pArAlLeLnOdE#"


def scheduler_name(schedd: str) -> str:
    """The dedicated scheduler of a schedd: Scheduler in parallel jobs, and what DedicatedScheduler is set to in the
    configuration of the slots that serve them."""
    return f"DedicatedScheduler@{schedd}"


class NodeAd(Struct, frozen=True):
    """What makes the ad of a node another than that of its job."""

    number: int
    #: Nodes of the job, over all of its procs.
    count: int
    #: The directory at the access point in which the nodes may leave files for each other (RemoteSpoolDir).
    spool: str

    def attributes(self, ad: ClassAd) -> dict[str, Value]:
        """The attributes that differ: the number of the node in place of its mark, and what the starter tells it."""
        found: dict[str, Value] = {
            name: value.replace(NODE_MARK, str(self.number))
            for name, value in ad.items()
            if isinstance(value, str) and NODE_MARK in value
        }
        return {**found, "Node": self.number, "CurrentHosts": self.count, "RemoteSpoolDir": self.spool}

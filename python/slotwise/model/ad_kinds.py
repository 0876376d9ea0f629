"""The kinds of ads in a collector: their MyType, and HTCondor's names for them."""

from __future__ import annotations

from msgspec import Struct

GENERIC = "Generic"


class AdKind(Struct, frozen=True):
    """A kind of ads.

    :param my_type: their MyType, by which the collector files them.
    :param name: HTCondor's name of the kind (AdTypes), in lower case; of ads that daemons send of themselves the
        daemon's.
    :param command: the word for them in commands to the collector (``UPDATE_STARTD_AD``); empty: there is none.
    """

    my_type: str
    name: str
    command: str = ""


KINDS = (
    AdKind("Machine", "startd", "STARTD"),
    AdKind("Scheduler", "schedd", "SCHEDD"),
    AdKind("DaemonMaster", "master", "MASTER"),
    AdKind("Collector", "collector", "COLLECTOR"),
    AdKind("Negotiator", "negotiator", "NEGOTIATOR"),
    AdKind("Submitter", "submitter", "SUBMITTOR"),
    AdKind("License", "license", "LICENSE"),
    AdKind("Storage", "storage", "STORAGE"),
    AdKind("Accounting", "accounting", "ACCOUNTING"),
    AdKind("Grid", "grid", "GRID"),
    AdKind("HAD", "had", "HAD"),
    AdKind("CkptServer", "ckptserver", "CKPT_SRVR"),
    AdKind("CredD", "credd"),
    AdKind("PlacementD", "placementd"),
    AdKind("Defrag", "defrag"),
    AdKind("StartDaemon", "startdaemon"),
    AdKind("Machine", "slot"),
    AdKind(GENERIC, "generic"),
    AdKind("Any", "any"),
)

#: MyType by name of the kind.
MY_TYPES = {kind.name: kind.my_type for kind in KINDS}
#: MyType by the word in commands.
COMMAND_WORDS = {kind.command: kind.my_type for kind in KINDS if kind.command}

"""What the starter exchanges with shadows and with the startd, as its own values; `convert` puts them on the wire.

The messages and their fields are those of ``schedd.proto`` and ``starter.proto``, which say more about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

# ---- both ways


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A part of a file, or a directory. ``name`` is relative to the destination, in bytes as file names are."""

    name: bytes
    mode: int = 0
    data: bytes = b""
    last: bool = False
    directory: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Terminal:
    """The size of a visitor's terminal, and its kind (TERM)."""

    rows: int = 0
    columns: int = 0
    kind: str = ""


class PeekedStream(Enum):
    """Which file of a job a visitor reads: one below its directory by name, or its standard output or error."""

    NAMED = "named"
    OUTPUT = "output"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class PeekFile:
    """One file that a visitor reads: from ``offset`` (below 0: its end), or what was read, or why it was not."""

    which: PeekedStream
    name: str
    offset: int = 0
    data: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Peek:
    """A look at files of a running job, or its answer; ``max_bytes`` of each."""

    files: tuple[PeekFile, ...]
    max_bytes: int


@dataclass(frozen=True, slots=True)
class OpenShell:
    """A visitor opens a shell, or runs ``command``; ``terminal`` None: standard streams are pipes."""

    command: tuple[str, ...] = ()
    terminal: Terminal | None = None
    shells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VisitData:
    """Bytes of a visit. ``error``: of standard error; ``last``: the end of standard input."""

    data: bytes
    error: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class BytesTaken:
    """So many bytes have been used up: the other side may send as many more."""

    count: int


@dataclass(frozen=True, slots=True)
class VisitEnd:
    """The end of a visit; ``error`` says why there was none."""

    status: int = 0
    error: str = ""


#: What the two sides of a visit say.
VisitMessage = Peek | OpenShell | VisitData | BytesTaken | Terminal | VisitEnd


@dataclass(frozen=True, slots=True)
class Visit:
    """A message of one visit; None: of a kind that this version does not know."""

    id: int
    what: VisitMessage | None


# ---- to the shadow


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a run on a stream."""

    token: str
    slot_name: str
    resume: bool = False
    asks_for_inputs: bool = False


@dataclass(frozen=True, slots=True)
class NeedInputs:
    """The input files may come."""


@dataclass(frozen=True, slots=True)
class Started:
    """The job executes; ``slot_properties`` is a pack of one ad."""

    pid: int
    scratch_dir: str
    at: int
    slot_properties: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """What the job uses: a pack of one ad."""

    pack: bytes


@dataclass(frozen=True, slots=True)
class Output:
    """A part of an output file."""

    piece: FilePiece


@dataclass(frozen=True, slots=True)
class OutputsWait:
    """Outputs of so many bytes are to be sent, and wait for their turn."""

    size: int


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """A part of standard output or error (``error``) of a job that runs."""

    error: bool
    begin: bool
    append: bool
    base: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a checkpoint have been sent; ``ad`` is a pack with the usage so far."""

    number: int
    at: int
    ad: bytes


@dataclass(frozen=True, slots=True)
class RemoteIo:
    """What the job asks of its access point (chirp); ``id`` is the proxy's.

    :raises ValueError: when a number or a text cannot be sent.
    """

    op: str
    name: str = ""
    text: str = ""
    data: bytes = b""
    offset: int = 0
    length: int = 0
    mode: int = 0
    id: int = 0

    def __post_init__(self) -> None:
        if max(abs(self.offset), abs(self.length)) >= 2**63 or not 0 <= self.mode < 2**32:
            raise ValueError("a number of the request is out of range")
        f"{self.name}{self.text}".encode()


@dataclass(frozen=True, slots=True)
class Ended:
    """How the run ended (``how``: a value of :class:`slotwise.execution.exit_status.How`)."""

    how: str
    code: int = 0
    ad: bytes = b""
    reason: str = ""
    reason_code: int = 0
    reason_subcode: int = 0
    at: int = 0
    core_dumped: bool = False


#: What a run reports to its shadow.
ToShadow = (
    Hello | NeedInputs | Started | Update | Output | OutputsWait | StreamPiece | Checkpoint | RemoteIo | Visit | Ended
)


# ---- from the shadow


@dataclass(frozen=True, slots=True)
class Accepted:
    """The shadow accepts the run: the job's ad (a pack), and whose job it is by the schedd's own record."""

    job_ad: bytes
    user: str
    #: The shadow gives turns for outputs.
    output_turns: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """A part of an input file."""

    piece: FilePiece


@dataclass(frozen=True, slots=True)
class InputsComplete:
    """All input files have been sent, or the transfer failed."""

    error: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


@dataclass(frozen=True, slots=True)
class Ack:
    """The end of the run is on the schedd's disk."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The shadow does not know the run, or not by this token."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class KillRun:
    """The access point ends the job."""

    fast: bool = False
    reason: str = ""
    reason_code: int = 0
    want_outputs: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """The access point has stored the checkpoint; ``error`` says why not."""

    error: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


@dataclass(frozen=True, slots=True)
class RemoteIoDone:
    """The answer to :class:`RemoteIo`; ``error`` is an errno, 0 for success."""

    id: int = 0
    error: int = 0
    data: bytes = b""
    text: str = ""


@dataclass(frozen=True, slots=True)
class StreamKept:
    """How far the access point has a stream (``error``: standard error)."""

    error: bool = False
    base: int = 0
    end: int = 0
    problem: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


@dataclass(frozen=True, slots=True)
class OutputTurnGiven:
    """The outputs that wait may be sent."""


#: What a shadow tells a run.
FromShadow = (
    Accepted
    | Input
    | InputsComplete
    | Ack
    | Refused
    | KillRun
    | CheckpointKept
    | RemoteIoDone
    | Visit
    | StreamKept
    | OutputTurnGiven
)


# ---- from the startd


@dataclass(frozen=True, slots=True)
class StartJob:
    """Run a job in a slot; packs of one ad each, as in ``starter.proto``."""

    slot_ad: bytes
    slot_name: str
    job_ad: bytes = b""
    run_token: str = ""
    shadow_address: str = ""
    limits: bytes = b""
    lease_s: int = 0
    fetched_for: str = ""


# ---- to the startd


@dataclass(frozen=True, slots=True)
class Leftover:
    """What of a run could not be removed or killed (``code``: SlotBrokenCode), and what its slot had."""

    run_id: str
    slot_name: str
    reason: str
    code: int
    cpus: float = 0.0
    memory_mib: int = 0
    disk_kib: int = 0
    assigned: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunPhase:
    """The phase of a run, and the job's process."""

    phase: str
    pid: int = 0


@dataclass(frozen=True, slots=True)
class SlotFree:
    """The run holds its slot no longer. ``how``: exited, evicted, held or failed."""

    how: str
    broken: bool = False
    reason: str = ""
    code: int = 0
    cpu_s: float = 0.0
    left: Leftover | None = None
    bytes_received: int = 0
    bytes_sent: int = 0
    fetched: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What the job uses: a pack of one ad."""

    pack: bytes


@dataclass(frozen=True, slots=True)
class JobSuspended:
    """The job was suspended, or continued."""

    resumed: bool


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The command to start a run was refused."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeftoversRemoved:
    """What the run left behind has been removed after all."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the host enforces: a pack of one ad."""

    pack: bytes


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list for the startd."""

    run_id: str
    slot_name: str
    pid: int
    phase: str
    suspended: bool
    #: Where its shadow is looked for; empty for fetched work.
    shadow_address: str = ""


@dataclass(frozen=True, slots=True)
class RunList:
    """The runs that the starter has, what others left behind, and whose leftovers are gone."""

    runs: tuple[ListedRun, ...]
    left: tuple[Leftover, ...] = ()
    repaired: tuple[str, ...] = ()


#: What the starter reports to the startd.
ToStartd = RunPhase | SlotFree | JobUsage | JobSuspended | StartRefused | LeftoversRemoved | HostFacts | RunList

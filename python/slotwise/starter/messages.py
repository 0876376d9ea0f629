"""What the starter exchanges with shadows and with the startd, as its own values; `convert` puts them on the wire.

The messages and their fields are those of ``schedd.proto`` and ``starter.proto``, which say more about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

# ---- both ways


class FilePiece(Struct, frozen=True):
    """A part of a file, or a directory. ``name`` is relative to the destination, in bytes as file names are."""

    name: bytes
    mode: int = 0
    data: bytes = b""
    last: bool = False
    directory: bool = False
    offset: int = 0


class Terminal(Struct, frozen=True):
    """The size of a visitor's terminal, and its kind (TERM)."""

    rows: int = 0
    columns: int = 0
    kind: str = ""


class PeekedStream(Enum):
    """Which file of a job a visitor reads: one below its directory by name, or its standard output or error."""

    NAMED = "named"
    OUTPUT = "output"
    ERROR = "error"


class PeekFile(Struct, frozen=True):
    """One file that a visitor reads: from ``offset`` (below 0: its end), or what was read, or why it was not."""

    which: PeekedStream
    name: str
    offset: int = 0
    data: bytes = b""
    error: str = ""


class Peek(Struct, frozen=True):
    """A look at files of a running job, or its answer; ``max_bytes`` of each."""

    files: tuple[PeekFile, ...]
    max_bytes: int


class OpenShell(Struct, frozen=True):
    """A visitor opens a shell, or runs ``command``; ``terminal`` None: standard streams are pipes."""

    command: tuple[str, ...] = ()
    terminal: Terminal | None = None
    shells: tuple[str, ...] = ()


class VisitData(Struct, frozen=True):
    """Bytes of a visit. ``error``: of standard error; ``last``: the end of standard input."""

    data: bytes
    error: bool = False
    last: bool = False


class BytesTaken(Struct, frozen=True):
    """So many bytes have been used up: the other side may send as many more."""

    count: int


class VisitEnd(Struct, frozen=True):
    """The end of a visit; ``error`` says why there was none."""

    status: int = 0
    error: str = ""


#: What the two sides of a visit say.
VisitMessage = Peek | OpenShell | VisitData | BytesTaken | Terminal | VisitEnd


class Visit(Struct, frozen=True):
    """A message of one visit; None: of a kind that this version does not know."""

    id: int
    what: VisitMessage | None


# ---- to the shadow


class Hello(Struct, frozen=True):
    """The first message of a run on a stream."""

    token: str
    slot_name: str
    resume: bool = False
    asks_for_inputs: bool = False
    keeps_common_inputs: bool = False


class CommonAnswer(Enum):
    """What becomes of an offer of common inputs; see ``CommonInputsAnswer`` of the protocol."""

    OWN = 0
    SEND = 1
    WAIT = 2
    PLACED = 3


class CommonInputsAnswer(Struct, frozen=True):
    """The answer to an offer of common inputs, and to their end."""

    what: CommonAnswer


class NeedInputs(Struct, frozen=True):
    """The input files may come."""


class Started(Struct, frozen=True):
    """The job executes; ``slot_properties`` is a pack of one ad."""

    pid: int
    scratch_dir: str
    at: int
    slot_properties: bytes


class Update(Struct, frozen=True):
    """What the job uses: a pack of one ad."""

    pack: bytes


class Output(Struct, frozen=True):
    """A part of an output file."""

    piece: FilePiece


class OutputsWait(Struct, frozen=True):
    """Outputs of so many bytes are to be sent, and wait for their turn."""

    size: int


class OutputsLeave(Struct, frozen=True):
    """Outputs begin to move to where their URLs lead, past the access point."""

    at: float


class StreamPiece(Struct, frozen=True):
    """A part of standard output or error (``error``) of a job that runs."""

    error: bool
    begin: bool
    append: bool
    base: int
    offset: int
    data: bytes


class Checkpoint(Struct, frozen=True):
    """The files of a checkpoint have been sent; ``ad`` is a pack with the usage so far.

    ``stored_as``: its number at the job's checkpoint_destination; ``failed``, with the reason: it is not there, or what
    came back from there is not it.
    """

    number: int
    at: int = 0
    ad: bytes = b""
    stored_as: int | None = None
    failed: bool = False
    reason: str = ""


class RemoteIo(Struct, frozen=True):
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


class Ended(Struct, frozen=True):
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
    Hello
    | NeedInputs
    | CommonInputsAnswer
    | Started
    | Update
    | Output
    | OutputsLeave
    | OutputsWait
    | StreamPiece
    | Checkpoint
    | RemoteIo
    | Visit
    | Ended
)


# ---- from the shadow


class Accepted(Struct, frozen=True):
    """The shadow accepts the run: the job's ad (a pack), and whose job it is by the schedd's own record."""

    job_ad: bytes
    user: str
    #: The shadow gives turns for outputs.
    output_turns: bool = False
    #: The tokens that the job needs, by the names of their files.
    credentials: Mapping[str, bytes] = field(default_factory=dict)


class Credentials(Struct, frozen=True):
    """Tokens that were renewed while the job runs, by the names of their files."""

    files: Mapping[str, bytes]


class Input(Struct, frozen=True):
    """A part of an input file."""

    piece: FilePiece


class CommonOffered(Struct, frozen=True):
    """The job has inputs in common with others: a digest of them, their bytes, and how long they are to be kept."""

    digest: str
    bytes: int
    keep_s: int


class CommonSent(Struct, frozen=True):
    """All common inputs have been sent; ``whole``: they are what was offered."""

    whole: bool


class InputsComplete(Struct, frozen=True):
    """All input files have been sent, or the transfer failed."""

    error: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


class Ack(Struct, frozen=True):
    """The end of the run is on the schedd's disk."""


class Refused(Struct, frozen=True):
    """The shadow does not know the run, or not by this token."""

    reason: str = ""


class KillRun(Struct, frozen=True):
    """The access point ends the job."""

    fast: bool = False
    reason: str = ""
    reason_code: int = 0
    want_outputs: bool = False


class CheckpointKept(Struct, frozen=True):
    """The access point has stored the checkpoint; ``error`` says why not."""

    error: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


class RemoteIoDone(Struct, frozen=True):
    """The answer to :class:`RemoteIo`; ``error`` is an errno, 0 for success."""

    id: int = 0
    error: int = 0
    data: bytes = b""
    text: str = ""


class StreamKept(Struct, frozen=True):
    """How far the access point has a stream (``error``: standard error)."""

    error: bool = False
    base: int = 0
    end: int = 0
    problem: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


class OutputTurnGiven(Struct, frozen=True):
    """The outputs that wait may be sent."""


#: What a shadow tells a run.
FromShadow = (
    Accepted
    | Input
    | CommonOffered
    | CommonSent
    | InputsComplete
    | Ack
    | Refused
    | KillRun
    | CheckpointKept
    | RemoteIoDone
    | Visit
    | StreamKept
    | OutputTurnGiven
    | Credentials
)


# ---- from the startd


class StartJob(Struct, frozen=True):
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


class Leftover(Struct, frozen=True):
    """What of a run could not be removed or killed (``code``: SlotBrokenCode), and what its slot had."""

    run_id: str
    slot_name: str
    reason: str
    code: int
    cpus: float = 0.0
    memory_mib: int = 0
    disk_kib: int = 0
    assigned: Mapping[str, str] = field(default_factory=dict)


class RunPhase(Struct, frozen=True):
    """The phase of a run, and the job's process."""

    phase: str
    pid: int = 0


class SlotFree(Struct, frozen=True):
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


class JobUsage(Struct, frozen=True):
    """What the job uses: a pack of one ad."""

    pack: bytes


class JobSuspended(Struct, frozen=True):
    """The job was suspended, or continued."""

    resumed: bool


class StartRefused(Struct, frozen=True):
    """The command to start a run was refused."""

    reason: str


class LeftoversRemoved(Struct, frozen=True):
    """What the run left behind has been removed after all."""


class HostFacts(Struct, frozen=True):
    """What the host enforces: a pack of one ad."""

    pack: bytes


class ListedRun(Struct, frozen=True):
    """A run in the list for the startd."""

    run_id: str
    slot_name: str
    pid: int
    phase: str
    suspended: bool
    #: Where its shadow is looked for; empty for fetched work.
    shadow_address: str = ""


class RunList(Struct, frozen=True):
    """The runs that the starter has, what others left behind, and whose leftovers are gone."""

    runs: tuple[ListedRun, ...]
    left: tuple[Leftover, ...] = ()
    repaired: tuple[str, ...] = ()


#: What the starter reports to the startd.
ToStartd = RunPhase | SlotFree | JobUsage | JobSuspended | StartRefused | LeftoversRemoved | HostFacts | RunList

"""What the starter needs to know of a job and of its slot, read once from their ads."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeGuard

from msgspec import Struct, field

from slotwise.errors import UsageError
from slotwise.execution.arguments import environment_new, environment_old, of_job
from slotwise.model.ownership import owner_of

#: One more than the highest signal number.
_SIGNALS_END = 65
#: Longest time that a job may ask for to leave, in seconds: what a keeper can count.
_VACATE_MOST_S = 2**31 - 1
#: Evaluates an attribute: a Python value, or None when it is undefined or an error.
Lookup = Callable[[str], object]

SCRATCH_TEXT = "#CoNdOrScRaTcHdIr#"
#: Standard output and error in the scratch directory; the shadow puts them where the job wants them.
STDOUT_NAME = "_condor_stdout"
STDERR_NAME = "_condor_stderr"
NULL_FILE = "/dev/null"
#: JobUniverse of parallel jobs.
PARALLEL = 11


class KillSignals(Struct, frozen=True):
    """Signals that ask a job to leave (numbers), and the seconds it may take unless the kill says otherwise."""

    soft: int = signal.SIGTERM
    remove: int | None = None
    hold: int | None = None
    vacate_s: int | None = None


class TransferRules(Struct, frozen=True):
    """How files move. ``output_files`` None: all new and changed top-level files."""

    mode: str = "IF_NEEDED"
    when: str = "ON_EXIT"
    executable: bool = True
    output_files: tuple[str, ...] | None = None
    relative_paths: bool = False
    success_code: int = 0
    max_output_mib: int = -1
    file_system_domain: str = ""
    #: What goes back besides standard output and error when outputs go on success only, and the job has failed.
    failure_files: tuple[str, ...] = ()


class CheckpointRules(Struct, frozen=True):
    """How a job says that it has written a checkpoint, and which files that is (None: its usual outputs)."""

    exit_code: int = 0
    signal: int | None = None
    files: tuple[str, ...] | None = None
    #: The URL below which checkpoints are kept; empty: at the access point.
    destination: str = ""
    #: The job's name in such URLs.
    global_job_id: str = ""
    #: The number of the job's last checkpoint before this run.
    last_number: int = -1


class StreamRules(Struct, frozen=True):
    """Standard output, or error, of a job whose files move.

    ``sent``: it goes to the access point; otherwise it stays at the execution point. ``live``: it goes while the job
    runs, not when the job is over.
    """

    sent: bool = True
    live: bool = False


class NodeView(Struct, frozen=True):
    """A node of a parallel job: its number, how many there are, and where at the access point they may leave files."""

    number: int
    count: int
    spool: str


class JobView(Struct, frozen=True):
    """A job as the starter sees it."""

    job_id: str
    cmd: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    iwd: str
    stdin: str
    stdout: str
    stderr: str
    owner: str
    transfer: TransferRules = field(default_factory=TransferRules)
    kill: KillSignals = field(default_factory=KillSignals)
    core_bytes: int | None = None
    #: Where the job's process begins (remote_initialdir); empty: in its scratch directory, or in ``iwd`` without one.
    remote_iwd: str = ""
    stack_bytes: int | None = None
    deferral: tuple[float, float] | None = None
    remote_update_prefix: str = "Chirp"
    run_as_owner: bool | None = None
    nice_user: bool = False
    universe: int = 5
    #: Which node of a parallel job it is; None for any other job.
    node: NodeView | None = None
    checkpoint: CheckpointRules | None = None
    #: Standard output and error go on where a former start left them.
    appends: bool = False
    #: The directory in the scratch directory that lists what was there before and after it; empty: none is made.
    manifest: str = ""
    #: Its files must be encrypted in transit.
    secret: bool = False
    #: The proxy certificate that goes with the job, as the access point names it.
    proxy: str = ""
    #: Tokens come with it (OAuthServicesNeeded).
    needs_credentials: bool = False
    output: StreamRules = field(default_factory=StreamRules)
    error: StreamRules = field(default_factory=StreamRules)

    @property
    def proxy_name(self) -> str:
        """The proxy certificate's name in the scratch directory, "" without one."""
        return PurePosixPath(self.proxy).name

    def live_streams(self) -> list[str]:
        """The files of :meth:`stream_files` that are sent while the job runs."""
        return [name for name, rules in self.stream_files().items() if rules.live]

    def stream_files(self) -> dict[str, StreamRules]:
        """The files in the scratch directory that standard output and error are written to, none for a null file.

        One file for both when the job names one. A stream that is not sent has the name that the job gives it.
        """
        found: dict[str, StreamRules] = {}
        if self.stdout != NULL_FILE:
            found[STDOUT_NAME if self.output.sent else PurePosixPath(self.stdout).name] = self.output
        if self.stderr not in (NULL_FILE, self.stdout):
            found[STDERR_NAME if self.error.sent else PurePosixPath(self.stderr).name] = self.error
        return found


class SlotView(Struct, frozen=True):
    """A slot as the starter sees it; amounts are what the slot has, not what the job asked for."""

    name: str
    cpus: float = 1.0
    memory_mib: int = 0
    disk_kib: int = 0
    machine_resources: tuple[str, ...] = ()
    assigned: Mapping[str, str] = field(default_factory=dict)
    #: Its GPUs by the whole UUIDs that CUDA takes (``GPU-...``, ``MIG-...``); empty where one has none.
    gpu_uuids: tuple[str, ...] = ()
    uid_domain: str = ""
    file_system_domain: str = ""
    #: SlotID: of a dynamic slot that of the slot which it was carved from.
    number: int = 0


def read_job(value: Lookup, user: str) -> JobView:
    """Read the ad of a job of ``user`` (``user@domain``).

    :raises UsageError: when arguments, environment or a signal are not understood.
    """
    cluster, proc = _number(value("ClusterId")), _number(value("ProcId"))
    window = _number(value("DeferralWindow"), 0.0)
    deferral = value("DeferralTime")
    core, stack = value("CoreSize"), value("StackSize")
    return JobView(
        job_id=f"{int(cluster)}.{int(proc)}",
        cmd=_text(value("Cmd")),
        arguments=_arguments(value),
        environment=_environment(value),
        iwd=_text(value("Iwd")) or "/",
        remote_iwd=_text(value("RemoteIwd")),
        stdin=_text(value("In")) or NULL_FILE,
        stdout=_text(value("Out")) or NULL_FILE,
        stderr=_text(value("Err")) or NULL_FILE,
        owner=owner_of(user),
        transfer=_transfer(value),
        kill=_kill_signals(value),
        core_bytes=int(core) if isinstance(core, int) and core >= 0 else None,
        stack_bytes=int(stack) if isinstance(stack, int) and stack > 0 else None,
        deferral=(float(deferral), window) if _is_number(deferral) else None,
        remote_update_prefix=_text(value("ChirpDelayedUpdatePrefix")) or "Chirp",
        run_as_owner=_flag(value("RunAsOwner")),
        nice_user=_flag(value("NiceUser")) is True,
        universe=int(_number(value("JobUniverse"), 5)),
        node=_node(value),
        checkpoint=_checkpoint(value),
        manifest=_manifest(value, f"{int(cluster)}_{int(proc)}_manifest"),
        secret=any(_text(value(name)) for name in ("EncryptInputFiles", "EncryptOutputFiles", "x509userproxy")),
        proxy=_text(value("x509userproxy")),
        needs_credentials=bool(_text(value("OAuthServicesNeeded"))),
        output=_stream(value("TransferOut"), value("StreamOut")),
        error=_stream(value("TransferErr"), value("StreamErr")),
        appends=_flag(value("WantFTOnCheckpoint")) is True or _flag(value("EraseOutputAndErrorOnRestart")) is False,
    )


def _manifest(value: Lookup, default: str) -> str:
    """The manifest's directory. ManifestDir requests one by itself, whatever ManifestDesired says.

    :raises UsageError: when it leads out of the scratch directory.
    """
    named = _text(value("ManifestDir"))
    path = PurePosixPath(named)
    if path.is_absolute() or ".." in path.parts or "\0" in named or (named and not path.parts):
        raise UsageError(
            f"the directory {named!r} of the manifest is not in the job's scratch directory",
            hint="manifest_dir takes a name, or a path below that directory",
        )
    return str(path) if named else default if _flag(value("ManifestDesired")) is True else ""


def _node(value: Lookup) -> NodeView | None:
    number = value("Node")
    if value("JobUniverse") != PARALLEL or not _is_number(number):
        return None
    return NodeView(int(_number(number)), int(_number(value("CurrentHosts"), 1)), _text(value("RemoteSpoolDir")))


def read_slot(value: Lookup, name: str = "") -> SlotView:
    """Read a slot's machine ad."""
    tags = tuple(_text(value("MachineResources")).replace(",", " ").split())
    assigned = {tag: _text(value(f"Assigned{tag}")) for tag in tags if value(f"Assigned{tag}") is not None}
    return SlotView(
        name=name or _text(value("Name")),
        cpus=_number(value("Cpus"), 1.0),
        memory_mib=int(_number(value("Memory"), 0)),
        disk_kib=int(_number(value("Disk"), 0)),
        machine_resources=tags,
        assigned=assigned,
        gpu_uuids=_gpu_uuids(value, next((text for tag, text in assigned.items() if tag.lower() == "gpus"), "")),
        uid_domain=_text(value("UidDomain")),
        file_system_domain=_text(value("FileSystemDomain")),
        number=int(_number(value("SlotID"), 0)),
    )


def _gpu_uuids(value: Lookup, assigned: str) -> tuple[str, ...]:
    found = []
    for name in dict.fromkeys(assigned.replace(",", " ").split()):
        properties = value(f"GPUs_{re.sub(r'[^A-Za-z0-9]+', '_', name)}")
        uuid = properties.get("DeviceUuid") if isinstance(properties, Mapping) else None
        if not isinstance(uuid, str) or not uuid:
            return ()
        found.append(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
    return tuple(found)


def signal_number(text: str) -> int:
    """The number of a signal given by name (``SIGTERM``, ``TERM``) or number.

    :raises UsageError: when there is no such signal.
    """
    word = text.strip().upper()
    if word.isascii() and word.isdigit() and len(word) < 4:
        return _checked(int(word))
    name = word if word.startswith("SIG") else f"SIG{word}"
    try:
        return int(signal.Signals[name])
    except KeyError:
        raise UsageError(f"there is no signal {text!r}", hint="use a name like SIGTERM or a number") from None


def _checked(number: int) -> int:
    if not 0 < number < _SIGNALS_END:
        raise UsageError(f"there is no signal {number}", hint=f"signals have numbers from 1 to {_SIGNALS_END - 1}")
    return number


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object, default: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else default


def _is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that can be counted with; users may write ``1e999``."""
    return isinstance(value, int | float) and math.isfinite(value)


def _flag(value: object) -> bool | None:
    return bool(value) if isinstance(value, bool | int) else None


def _arguments(value: Lookup) -> tuple[str, ...]:
    return tuple(of_job(value("Arguments"), value("Args")))


def _environment(value: Lookup) -> Mapping[str, str]:
    new = value("Environment")
    if isinstance(new, str):
        return environment_new(new)
    return environment_old(_text(value("Env")), _text(value("EnvDelim")) or ";")


def _kill_signals(value: Lookup) -> KillSignals:
    def number(name: str) -> int | None:
        found = value(name)
        if isinstance(found, int) and not isinstance(found, bool):
            return _checked(found) if found else None
        return signal_number(found) if isinstance(found, str) and found else None

    vacate = value("JobMaxVacateTime")
    if not isinstance(vacate, int | float):
        vacate = value("KillSigTimeout")
    return KillSignals(
        soft=number("KillSig") or int(signal.SIGTERM),
        remove=number("RemoveKillSig"),
        hold=number("HoldKillSig"),
        vacate_s=int(min(max(0, vacate), _VACATE_MOST_S)) if _is_number(vacate) else None,
    )


def _transfer(value: Lookup) -> TransferRules:
    listed = value("TransferOutput")
    limit = value("MaxTransferOutputMB")
    success = value("JobSuccessExitCode")
    if not isinstance(success, int):
        success = value("SuccessExitCode")
    return TransferRules(
        mode=(_text(value("ShouldTransferFiles")) or "IF_NEEDED").upper(),
        when=(_text(value("WhenToTransferOutput")) or "ON_EXIT").upper(),
        executable=_flag(value("TransferExecutable")) is not False,
        output_files=file_list(listed) if isinstance(listed, str) else None,
        relative_paths=_flag(value("PreserveRelativePaths")) is True,
        success_code=success if isinstance(success, int) else 0,
        max_output_mib=int(limit) if _is_number(limit) else -1,
        file_system_domain=_text(value("FileSystemDomain")),
        failure_files=file_list(_text(value("FailureFiles"))),
    )


def _stream(transferred: object, streamed: object) -> StreamRules:
    sent = _flag(transferred) is not False
    return StreamRules(sent=sent, live=sent and _flag(streamed) is True)


def _checkpoint(value: Lookup) -> CheckpointRules | None:
    if _flag(value("WantFTOnCheckpoint")) is not True:
        return None
    listed = value("TransferCheckpoint")
    by_signal = _flag(value("SuccessCheckpointExitBySignal")) is True
    return CheckpointRules(
        exit_code=int(_number(value("SuccessCheckpointExitCode"))),
        signal=int(_number(value("SuccessCheckpointExitSignal"))) if by_signal else None,
        files=file_list(listed) if isinstance(listed, str) else None,
        destination=_text(value("CheckpointDestination")) if _node(value) is None else "",
        global_job_id=_text(value("GlobalJobId")),
        last_number=int(_number(value("CheckpointNumber"), -1)),
    )


def file_list(text: str) -> tuple[str, ...]:
    """The names of a comma-separated list."""
    return tuple(name for name in (piece.strip() for piece in text.split(",")) if name)

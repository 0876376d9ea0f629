"""The file transfer plan of a job, from its ad, and its input files.

They are read in worker threads, with the owner's rights. For output see :mod:`slotwise.schedd.transfer.results`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from slotwise.classad import ClassAd, SpecialValue
from slotwise.daemon.host_faults import each_waited_out, waited_out
from slotwise.errors import SlotwiseError
from slotwise.model.reason_codes import Hold
from slotwise.schedd.transfer.checkpoint_folders import CheckpointFolder
from slotwise.schedd.user_files.owner_rights import FileOwner, as_owner
from slotwise.transfer.lists import common_list, input_list, is_null, job_plugins, parse_remaps
from slotwise.transfer.pieces import Piece, pieces

STDOUT = "_condor_stdout"
STDERR = "_condor_stderr"


class TransferError(SlotwiseError):
    """A file of the job cannot be read or written: holds the job with ``hold_code`` and ``subcode`` (errno)."""

    code = "transfer"

    def __init__(self, message: str, hold_code: int, subcode: int) -> None:
        super().__init__(message)
        self.hold_code = hold_code
        self.subcode = subcode


class FilePlan(Struct, frozen=True):
    """Which files of a job are transferred, from where and to where. Names are as in the ad."""

    owner: FileOwner
    iwd: str
    executable: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    inputs: tuple[str, ...] = ()
    #: Those of them that other jobs have, too, and for which jobs a host keeps them.
    common: tuple[str, ...] = ()
    common_scope: str = ""
    #: What the job's container image may be called among them.
    images: frozenset[str] = frozenset()
    #: The proxy certificate that is sent with the job.
    proxy: str = ""
    remaps: Mapping[str, str] = field(default_factory=dict)
    preserve_relative: bool = False
    #: should_transfer_files: YES, IF_NEEDED or NO.
    transfer: str = "YES"
    fallback_account: str = "nobody"
    #: Directory of the schedd's own with files of an evicted run, or "".
    spooled: str = ""
    #: The URL below which the job keeps its checkpoints, and its name there; "": they are kept in SPOOL.
    checkpoint_destination: str = ""
    global_job_id: str = ""
    #: The directory with the manifests of those, or "".
    checkpoints: str = ""
    #: Append to the output and error of a former run.
    appends: bool = False
    #: Standard output or error is written while the job runs (``stream_output``, ``stream_error``).
    streams: bool = False
    #: Files of the job must be encrypted in transfer (``encrypt_input_files``).
    secret: bool = False
    #: Limits on input and output in MiB; less than 0: none.
    max_input_mib: float = -1
    max_output_mib: float = -1

    @property
    def moves_inputs(self) -> bool:
        """Whether there may be input to send."""
        return self.transfer != "NO" and bool(
            self.executable or self.inputs or self.proxy or self.stdin or self.spooled or self.checkpoints
        )


def file_plan(ad: ClassAd, account: str, fallback_account: str, limits_mib: tuple[float, float] = (-1, -1)) -> FilePlan:
    """The plan from a job's ad, in which ``$$()`` is expanded. The files are ``account``'s.

    :param limits_mib: limits on input and output for jobs that set none.
    """

    def value(name: str) -> object:
        return ad.eval(name) if name in ad else None

    def text(name: str) -> str:
        found = value(name)
        return found if isinstance(found, str) else ""

    def limit(name: str, default: float) -> float:
        found = value(name)
        return float(found) if isinstance(found, int | float) and not isinstance(found, SpecialValue) else default

    sends_executable = ad.get("TransferExecutable", True) is not False
    images = _images(text)
    return FilePlan(
        owner=account,
        iwd=text("Iwd") or "/",
        executable=text("Cmd") if sends_executable else "",
        stdin="" if ad.get("TransferIn", True) is False or is_null(text("In")) else text("In"),
        stdout=text("Out"),
        stderr=text("Err"),
        inputs=_with_plugins(_with_image(input_list(text), images), text("TransferPlugins")),
        common=tuple(name for name in _with_image(common_list(text), images) if "://" not in name),
        common_scope=_common_scope(value),
        images=images,
        remaps=parse_remaps(text("TransferOutputRemaps")),
        preserve_relative=ad.get("PreserveRelativePaths", False) is True,
        transfer=(text("ShouldTransferFiles") or "IF_NEEDED").upper(),
        fallback_account=fallback_account,
        appends=ad.get("WantFTOnCheckpoint") is True or ad.get("EraseOutputAndErrorOnRestart") is False,
        checkpoint_destination=text("CheckpointDestination") if ad.get("WantFTOnCheckpoint") is True else "",
        global_job_id=text("GlobalJobId"),
        streams=ad.get("StreamOut") is True or ad.get("StreamErr") is True,
        proxy=text("x509userproxy"),
        secret=any(text(name) for name in ("EncryptInputFiles", "EncryptOutputFiles", "x509userproxy")),
        max_input_mib=limit("MaxTransferInputMB", limits_mib[0]),
        max_output_mib=limit("MaxTransferOutputMB", limits_mib[1]),
    )


def input_counts(ad: ClassAd) -> dict[str, int]:
    """TransferInputFileCounts: how many inputs a job has by each means, CEDAR for the pool's own stream, the methods of
    URLs in capitals; nothing without any.
    """
    plan = file_plan(ad, "", "")
    if plan.transfer == "NO":
        return {}
    urls = [name.partition("://")[0].lower().rpartition("+")[2] for name in plan.inputs if "://" in name]
    single = plan.executable, "" if is_null(plan.stdin) else plan.stdin, plan.proxy
    own = {name for name in (*single, *plan.inputs) if name and "://" not in name}
    counts = Counter(url.upper() for url in urls)
    return {**({"CEDAR": len(own)} if own else {}), **counts}


def _common_scope(value: Callable[[str], object]) -> str:
    """Which jobs have their common inputs together: as in HTCondor those of a DAG, or of a cluster."""
    dag = value("DAGManJobId")
    return f"DAGManJobId={dag}" if isinstance(dag, int) else f"ClusterId={value('ClusterId')}"


def _with_image(inputs: Iterable[str], images: frozenset[str]) -> Iterator[str]:
    """The input files, among them a container image that is a directory as itself: ``container_image = unpacked/`` is
    listed with its slashes, as in HTCondor, where only its contents are sent and the job never starts."""
    for name in inputs:
        yield name.rstrip("/") if name.rstrip("/") in images else name


def _images(text: Callable[[str], str]) -> frozenset[str]:
    """What the job's container image may be called among its input files, without slashes at the end: as it was given,
    or as it is spooled. None without one."""
    full = text("ContainerImageFullPath").rstrip("/")
    return frozenset((full, text("ContainerImage"))) if full else frozenset()


def _with_plugins(inputs: Iterable[str], plugins: str) -> tuple[str, ...]:
    """The input files, before them the transfer plugins that the job brings, unless it lists them itself."""
    listed = tuple(inputs)
    own = dict.fromkeys(path for _, path in job_plugins(plugins) if path not in listed)
    return (*own, *listed)


def input_pieces(plan: FilePlan) -> Iterator[Piece]:
    """All input files, piece by piece, read with the owner's rights.

    :raises TransferError: 14 when the initial directory is missing, 13 for anything that cannot be read, 32 over the
        job's limit on input.
    """
    total = 0
    for piece in _all_pieces(plan):
        total += len(piece.data)
        if 0 <= plan.max_input_mib < total / 1048576:
            raise TransferError(
                f"Max total input file size exceeded: limit {plan.max_input_mib:g} MB",
                int(Hold.MAX_TRANSFER_INPUT),
                0,
            )
        yield piece


def _all_pieces(plan: FilePlan) -> Iterator[Piece]:
    with as_owner(plan.owner, plan.fallback_account):
        check_iwd(plan.iwd)
        for path, name, executable in sources(plan):
            try:
                yield from each_waited_out(partial(pieces, path, name, executable=executable))
            except OSError as error:
                raise _input_error(path, error) from None
    if plan.spooled:
        try:
            for name in sorted(waited_out(partial(os.listdir, plan.spooled))):
                if plan.appends or name not in (STDOUT, STDERR):
                    yield from each_waited_out(partial(pieces, os.path.join(plan.spooled, name), name))
        except OSError as error:
            raise _input_error(plan.spooled, error) from None
    if plan.checkpoints and (last := waited_out(CheckpointFolder(Path(plan.checkpoints)).last_good)) is not None:
        try:
            yield from each_waited_out(partial(pieces, str(last), last.name))
        except OSError as error:
            raise _input_error(str(last), error) from None


def check_iwd(iwd: str) -> None:
    try:
        if not stat.S_ISDIR(os.stat(iwd).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise TransferError(
            f"Cannot access initial working directory {iwd}: {error.strerror}",
            int(Hold.IWD_ERROR),
            error.errno or 0,
        ) from None


def sources(plan: FilePlan) -> Iterator[tuple[str, str, bool]]:
    """What is sent of the owner's files: (path here, name in the sandbox, whether it is the executable)."""
    if plan.executable:
        yield os.path.join(plan.iwd, plan.executable), os.path.basename(plan.executable), True
    if not is_null(plan.stdin):
        yield os.path.join(plan.iwd, plan.stdin), os.path.basename(plan.stdin), False
    if plan.proxy and plan.proxy not in plan.inputs:
        yield os.path.join(plan.iwd, plan.proxy), os.path.basename(plan.proxy), False
    for name in plan.inputs:
        if "://" in name:
            continue  # fetched by a plugin at the execution point
        path = os.path.join(plan.iwd, name)
        if name in plan.images and os.path.isdir(path):
            path += "/"  # of an image that is a link, what it leads to
        if plan.preserve_relative and not os.path.isabs(name):
            yield path, os.path.normpath(name), False  # a slash at its end has no meaning here
        elif name.endswith("/"):
            yield path, "", False
        else:
            yield path, os.path.basename(name), False


def _input_error(path: str, error: OSError) -> TransferError:
    return TransferError(
        f"reading from file {error.filename or path}: (errno {error.errno or 0}) {error.strerror or error}",
        int(Hold.TRANSFER_INPUT_ERROR),
        error.errno or 0,
    )


def named(error: TransferError, access_point: str, slot: str) -> TransferError:
    """The error with both ends of the transfer, worded like HTCondor's."""
    inputs = error.hold_code == Hold.TRANSFER_INPUT_ERROR
    if not inputs and error.hold_code != Hold.TRANSFER_OUTPUT_ERROR:
        return error
    word, doing = ("input", "sending files to") if inputs else ("output", "receiving files from")
    message = (
        f"Transfer {word} files failure at access point {access_point} while {doing} execution point {slot}. "
        f"Details: {error.message}"
    )
    return TransferError(message, error.hold_code, error.subcode)

"""Checkpoints that a job keeps at a URL (``checkpoint_destination``): sent there, and brought back, by plugins.

The files of a checkpoint are at ``DESTINATION/GLOBAL_JOB_ID/NUMBER/``. Their manifest, with the checksum of each, goes
to the access point, also when not all files have arrived, so that these can be deleted. The next start of the job gets
the manifest of the last good checkpoint, fetches what it lists, and begins only if it is what was sent. HTCondor
manual, "Self-Checkpointing Applications"; words and codes are HTCondor's.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from slotwise.daemon.user_paths import open_path
from slotwise.errors import UsageError
from slotwise.execution.exit_status import STARTER_ERROR, End, How, held
from slotwise.execution.job_view import CheckpointRules
from slotwise.execution.keeper_spec import Identity
from slotwise.model.reason_codes import Hold
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.messages import Checkpoint, FilePiece
from slotwise.starter.transfer import transfer, url_transfer
from slotwise.starter.transfer.plugins import Plugins
from slotwise.starter.transfer.transfer import Output
from slotwise.starter.transfer.url_transfer import PluginFailure, TransferringRun
from slotwise.transfer import checkpoint_manifest

_log = logging.getLogger(__name__)


class Stored(Struct, frozen=True):
    """What came of a checkpoint: its manifest for the access point, and what is wrong. ``hold``: what the run ends
    with; None: the job goes on, and the next checkpoint may arrive."""

    manifest: Sequence[FilePiece]
    reason: str = ""
    hold: End | None = None


async def store(
    run: TransferringRun, plugins: Plugins, rules: CheckpointRules, chosen: Sequence[Output], number: int
) -> Stored:
    """Send the files of a checkpoint to the job's destination.

    :raises OSError: when one cannot be read.
    :raises UsageError: when one has a name that no manifest can have, or there are too many.
    """
    files = [output for output in chosen if not output.directory]
    loop = asyncio.get_running_loop()
    checksums = await loop.run_in_executor(None, _checksums, files, run.job.identity)
    name = checkpoint_manifest.name_of(number)
    text = checkpoint_manifest.text_of(zip(checksums, (output.name for output in files), strict=True), name)
    if len(text) > checkpoint_manifest.MOST:
        raise UsageError(f"the checkpoint has too many files ({len(files)}): its manifest would have {len(text)} bytes")
    manifest = list(_pieces(name.encode(), text))
    place = checkpoint_manifest.place_of(rules.destination, rules.global_job_id, number)
    failed = await url_transfer.store(run, plugins, [(place + output.name, str(output.path)) for output in files])
    if failed is None:
        return Stored(manifest)
    _log.error(
        "%s: checkpoint %d did not go to %s (run %s): %s",
        run.assignment.job_id, number, place, run.assignment.run_id, failed.details,
    )  # fmt: skip
    return Stored(manifest, failed.details, _hold(failed))


def _pieces(name: bytes, text: bytes) -> Iterator[FilePiece]:
    size = transfer.PIECE
    for offset in range(0, len(text), size):
        last = offset + size >= len(text)
        yield FilePiece(name=name, mode=0o600, data=text[offset : offset + size], last=last, offset=offset)


def failed(reason: str) -> End:
    """What a run ends with whose checkpoint can never go to its destination, in HTCondor's words with the reason."""
    return held(checkpoint_manifest.not_stored(reason), Hold.FAILED_TO_CHECKPOINT, -1)


def _hold(why: PluginFailure) -> End | None:
    """A plugin that says which file it could not send and ends with an error puts the job on hold, as in HTCondor; one
    that cannot be run or says nothing, and one that ends well all the same, may do better next time."""
    return failed(why.details) if why.said else None


async def restore(run: TransferringRun, plugins: Plugins) -> None:
    """Bring back the job's last checkpoint, if its access point has sent the manifest of one.

    :raises OSError: when the scratch directory refuses.
    :raises LaunchRefusedError: when a file cannot be had (on hold), or the checkpoint is not what was sent: the job
        starts from the one before.
    """
    rules = run.job.view.checkpoint if run.job.view is not None else None
    if rules is None or not rules.destination:
        return
    scratch, identity = run.assignment.directory.scratch, run.job.identity
    numbers = sorted(number for name in transfer.listing(scratch, identity)
                     if (number := checkpoint_manifest.number_in(name)) >= 0)  # fmt: skip
    if not numbers:
        return
    if len(numbers) > 1:
        names = ", ".join(checkpoint_manifest.name_of(number) for number in numbers)
        reason = f"The job has inputs with the names of manifests of checkpoints ({names})"
        raise LaunchRefusedError(held(reason, Hold.FAILED_TO_CHECKPOINT, -1))
    await _restore(run, plugins, rules, numbers[0])


async def _restore(run: TransferringRun, plugins: Plugins, rules: CheckpointRules, number: int) -> None:
    scratch, identity = run.assignment.directory.scratch, run.job.identity
    loop, path = asyncio.get_running_loop(), scratch / checkpoint_manifest.name_of(number)
    listed: list[tuple[str, str]] = []
    try:
        listed = _manifest(path, identity)
        place = checkpoint_manifest.place_of(rules.destination, rules.global_job_id, number)
        with rights_of(identity):
            for _, name in listed:
                if "/" in name:
                    (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        await url_transfer.bring_back(run, plugins, [(place + name, name) for _, name in listed])
        if checkpoint_manifest.number_in(path.name) != number or _manifest(path, identity) != listed:
            raise UsageError("Invalid MANIFEST file, aborting.")
        await loop.run_in_executor(None, _compare, scratch, listed, identity)
    except UsageError as error:
        _log.error("%s: checkpoint %d is not what was sent (run %s): %s",
                   run.assignment.job_id, number, run.assignment.run_id, error.message)  # fmt: skip
        run.shadow.report(Checkpoint(0, stored_as=number, failed=True, reason=error.message))
        raise LaunchRefusedError(End(How.NOT_STARTED, reason=error.message, reason_code=STARTER_ERROR)) from None
    with rights_of(identity):
        path.unlink(missing_ok=True)
    _log.info("%s: has the %d files of its checkpoint %d (run %s)",
              run.assignment.job_id, len(listed), number, run.assignment.run_id)  # fmt: skip


def _manifest(path: Path, identity: Identity) -> list[tuple[str, str]]:
    """What a manifest in the scratch directory lists.

    :raises UsageError: when it is damaged.
    """
    try:
        with rights_of(identity):
            descriptor = open_path(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            text = file.read(checkpoint_manifest.MOST + 1)
    except OSError:
        text = b""
    if len(text) > checkpoint_manifest.MOST or not checkpoint_manifest.is_sound_text(text, str(path)):
        raise UsageError("Invalid MANIFEST file, aborting.")
    return checkpoint_manifest.files_in(text)


def _checksums(files: Sequence[Output], identity: Identity) -> list[str]:
    """The checksums of files. Blocks.

    :raises OSError: when one cannot be read, or is none.
    """
    return [_checksum(output.path, identity) for output in files]


def _checksum(path: Path, identity: Identity) -> str:
    with rights_of(identity):
        descriptor = open_path(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        transfer.size_of(descriptor)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compare(scratch: Path, listed: list[tuple[str, str]], identity: Identity) -> None:
    """Compare files with their checksums. Blocks.

    :raises UsageError: when one differs or is missing.
    """
    for checksum, name in listed:
        try:
            found = _checksum(scratch / name, identity)
        except OSError:
            raise UsageError(f"Failed to open checkpoint file ('{name}') to compute checksum, aborting.") from None
        if found != checksum:
            words = f"did not have expected checksum ({found} vs {checksum}), aborting."
            raise UsageError(f"Checkpoint file '{name}' {words}")

"""``condor_manifest``: makes and checks the manifests of checkpoints."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import SlotwiseError, UsageError
from slotwise.transfer import checkpoint_manifest as manifest
from slotwise.transfer.checkpoint_map import KNOB, call_for, read, words_for

#: How long a program may take where the configuration does not say, seconds.
_FILE_S = 20
_USAGE = """condor_manifest: [function] [argument]
where [function] is one of:
  getNumberFromFileName
  validateManifestFile
  validateFilesListedIn
  FileFromLine
  ChecksumFromLine
  compute_file_sha256_checksum
  createManifestFor
  deleteFilesStoredAt, with the arguments URL FILE-STEM LOWEST HIGHEST"""


def main(args: list[str], inv: Invocation) -> int:
    """Carry out one function; the exit status is HTCondor's."""
    if len(args) == 1 and args[0].lstrip("-").startswith("h"):
        inv.out(_USAGE)
        return 0
    if args[:1] == ["deleteFilesStoredAt"] and len(args) == _DELETES:
        return _delete(args[1:], inv)
    if len(args) != 2 or args[0] not in _FUNCTIONS:
        inv.err(_USAGE)
        return 1
    try:
        return _FUNCTIONS[args[0]](args[1], inv)
    except OSError as error:
        inv.err(f"condor_manifest: {error.filename or args[1]}: {error.strerror}")
        return 1


def _number(name: str, inv: Invocation) -> int:
    number = manifest.number_in(name)
    inv.out(str(number))
    return number & 0xFF


def _validate(path: str, inv: Invocation) -> int:
    sound = manifest.is_sound(str(inv.path(path)))
    inv.out("true" if sound else "false")
    return 0 if sound else 1


def _validate_files(path: str, inv: Invocation) -> int:
    try:
        manifest.check_files(str(inv.path(path)))
    except UsageError as error:
        inv.out(f"false\n{error.message}")
        return 1
    inv.out("true")
    return 0


def _file(line: str, inv: Invocation) -> int:
    inv.out(manifest.file_in(line))
    return 0


def _checksum(line: str, inv: Invocation) -> int:
    inv.out(manifest.checksum_in(line))
    return 0


def _compute(path: str, inv: Invocation) -> int:
    inv.out(manifest.line_for(path).rstrip("\n"))
    return 0


def _create(directory: str, inv: Invocation) -> int:
    manifest.create(directory, "MANIFEST")
    return 0


#: Words of a call that deletes checkpoints.
_DELETES = 5


def _delete(args: list[str], inv: Invocation) -> int:
    """Delete the checkpoints from one number to another below a URL, by the programs of CHECKPOINT_DESTINATION_MAPFILE.

    Their manifests are FILE-STEM.NUMBER, or with FAILURE in the place of MANIFEST; each is removed once its files are
    gone, and the directory when nothing but the job's ad (``.job.ad``) is left.
    """
    place, stem, *numbers = args
    for text in numbers:
        if not (text.isascii() and text.isdigit()):
            inv.err(f"'{text}' is not a number, aborting.")
            return 1
    if os.geteuid() == 0:
        inv.err(
            "condor_manifest: nothing is deleted as root, files are where users wanted them: run it as the job's owner"
        )
        return 1
    base, failed = inv.path(stem), False
    for number in range(int(numbers[0]), int(numbers[1]) + 1):
        path, bad = base.with_name(f"{base.name}.{number:04d}"), base.name.replace("MANIFEST", "FAILURE")
        if not path.exists():
            path = base.with_name(f"{bad}.{number:04d}")
        try:
            _delete_one(f"{place.rstrip('/')}/{number:04d}", path, base.with_name(".job.ad"), inv)
        except (SlotwiseError, OSError, subprocess.SubprocessError) as error:
            inv.out(str(error))
            failed = True
    with contextlib.suppress(OSError):
        if [entry.name for entry in base.parent.iterdir()] == [".job.ad"]:
            (base.parent / ".job.ad").unlink()
            base.parent.rmdir()
    return int(failed)


def _delete_one(place: str, path: Path, ad: Path, inv: Invocation) -> None:
    """
    :raises OSError: when the manifest, the map or the program cannot be used.
    :raises SlotwiseError: when no line of the map is about the URL, or the manifest leads elsewhere.
    :raises SubprocessError: when the program fails, or takes too long.
    """
    config = inv.knobs()
    names = [name for _, name in manifest.files_in(path.read_bytes())]
    lines = read(Path(config.get(KNOB) or "").read_bytes())
    words = words_for(lines, place, config.get("LIBEXEC") or "")
    for name in names:
        call = call_for(words, place, name, str(ad), is_whole="FAILURE" not in path.name)
        limit_s = config.get_int("CHECKPOINT_CLEANUP_TIMEOUT") or _FILE_S
        subprocess.run(call, check=True, timeout=limit_s, stdin=subprocess.DEVNULL, capture_output=True)
    path.unlink()


_FUNCTIONS: Mapping[str, Callable[[str, Invocation], int]] = {
    "getNumberFromFileName": _number,
    "validateManifestFile": _validate,
    "validateFilesListedIn": _validate_files,
    "FileFromLine": _file,
    "ChecksumFromLine": _checksum,
    "compute_file_sha256_checksum": _compute,
    "createManifestFor": _create,
}

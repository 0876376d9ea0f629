"""``condor_manifest``: makes and checks the manifests of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import UsageError
from slotwise.transfer import checkpoint_manifest as manifest

_USAGE = """condor_manifest: [function] [argument]
where [function] is one of:
  getNumberFromFileName
  validateManifestFile
  validateFilesListedIn
  FileFromLine
  ChecksumFromLine
  compute_file_sha256_checksum
  createManifestFor"""


def main(args: list[str], inv: Invocation) -> int:
    """Carry out one function; the exit status is HTCondor's."""
    if len(args) == 1 and args[0].lstrip("-").startswith("h"):
        inv.out(_USAGE)
        return 0
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


_FUNCTIONS: Mapping[str, Callable[[str, Invocation], int]] = {
    "getNumberFromFileName": _number,
    "validateManifestFile": _validate,
    "validateFilesListedIn": _validate_files,
    "FileFromLine": _file,
    "ChecksumFromLine": _checksum,
    "compute_file_sha256_checksum": _compute,
    "createManifestFor": _create,
}

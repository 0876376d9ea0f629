"""``slotwise condor-names``: a directory of commands with HTCondor's names; ``condor_version``.

Each is a link to the native launcher, which hands the name on. A site puts the directory into PATH, or has the links
elsewhere; a program that lies there already is never replaced.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path

import slotwise
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import UnknownOptionError
from slotwise.cli.common.parser import Parser
from slotwise.cli.registry import CONDOR_NAMES
from slotwise.errors import HostError, UsageError
from slotwise.release import CONDOR_VERSION, LAYOUT, RELEASE_DIR, condor_platform

#: Where the links are, unless another place is named.
DIRECTORY = Path(slotwise.__file__).parent / "condor_names"
#: sshd.sh and condor_ssh, with which the nodes of parallel jobs reach each other, and openmpiscript.
LIBEXEC = Path(slotwise.__file__).parent / "libexec"


def main(args: list[str], inv: Invocation) -> int:
    """Print the directory; the links in it are made where they are missing."""
    parser = Parser(inv, "condor-names", "The directory of commands with HTCondor's names, to put into PATH.")
    parser.add_argument("--path", "-path", action="store_true", help="print the directory (the default)")
    parser.add_argument("--in", "-in", dest="directory", metavar="DIR", help="make the links there instead")
    parser.add_argument("--remove", "-remove", action="store_true", help="remove the links that were made there")
    parser.add_argument("--list", "-list", action="store_true", help="print the names")
    parser.add_argument(
        "--libexec", "-libexec", action="store_true", help="print the directory of scripts for parallel jobs instead"
    )
    parser.add_argument("--json", "-json", action="store_true", help="with --list: one JSON array, for programs")
    options = parser.take(args)
    if options is None:
        return 0
    if options.json and not options.list:
        raise UsageError("--json goes with --list")
    if options.list:
        inv.out(json.dumps(list(CONDOR_NAMES)) if options.json else "\n".join(CONDOR_NAMES))
        return 0
    if options.libexec:
        inv.out(str(LIBEXEC))
        return 0
    directory = inv.path(options.directory) if options.directory else DIRECTORY
    if options.remove:
        unlink(directory, launcher())
        return 0
    if directory == DIRECTORY:
        install()
    else:
        link(directory, launcher())
    inv.out(str(directory))
    return 0


def launcher() -> Path:
    """The native launcher of this installation.

    :raises HostError: when there is none, as in a source tree that was not built.
    """
    try:
        files = metadata.files("slotwise") or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name == "slotwise" and file.parent.name == "bin"]
    found.append(Path(sys.executable).with_name("slotwise"))
    for path in found:
        if path.is_file():
            return path.resolve()
    raise HostError("the launcher `slotwise` is not installed", hint="pip install, or `make build`")


def link(directory: Path, program: Path) -> None:
    """Make the links of all names in ``directory``.

    :raises HostError: when something else has one of the names there, such as an installed HTCondor, and nothing is
        made then; or when links are missing and the directory is another user's.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _link(directory, program)
    except PermissionError:
        hint = "have its owner run `slotwise condor-names`, or name a directory of yours: --in DIR"
        raise HostError(f"links are missing in {directory}, where you may not write", hint=hint) from None


def program(name: str) -> Path:
    """This installation's program of one of HTCondor's names; the link is made if it is missing.

    :raises HostError: it is missing, and may not be made by the caller.
    """
    path = DIRECTORY / name
    if not path.exists():
        install()
    return path


def install() -> None:
    """Make the links of this installation, and the directories that the configuration names by BIN, SBIN and LIBEXEC.

    :raises HostError: some are missing, and may not be made by the caller.
    """
    link(DIRECTORY, launcher())
    if RELEASE_DIR.exists() or os.access(RELEASE_DIR.parent, os.W_OK):  # one who only calls the names needs no more
        lay_out(RELEASE_DIR)
    note_installed(DIRECTORY)


def lay_out(directory: Path) -> None:
    """Make the directories that HTCondor's RELEASE_DIR has, as links to those of the package."""
    directory.mkdir(exist_ok=True)
    for name, place in LAYOUT.items():
        path = directory / name
        if not path.is_symlink():
            path.symlink_to(Path("..") / place)


def _link(directory: Path, program: Path) -> None:
    target = os.path.relpath(program, directory.resolve())
    missing = []
    for name in CONDOR_NAMES:
        path = directory / name
        if path.is_symlink() and path.readlink().name == program.name:
            if path.resolve() == program:
                continue
        elif path.is_symlink() or path.exists():
            raise HostError(
                f"{path} is there already, and is not a link to {program.name}", hint="name another directory"
            )
        missing.append(path)
    for path in missing:
        made = path.with_name(f".{path.name}.{os.getpid()}")
        made.symlink_to(target)
        made.replace(path)  # at once: calls of this moment find the old link or the new one


def unlink(directory: Path, program: Path) -> None:
    """Remove the links of names to ``program`` from ``directory``; all else there stays."""
    for name in CONDOR_NAMES:
        path = directory / name
        if path.is_symlink() and path.resolve() == program:
            path.unlink()


def note_installed(directory: Path) -> None:
    """Add the links to the installation's list of files, so that uninstalling the package removes them with it."""
    try:
        files = metadata.files("slotwise") or []
    except metadata.PackageNotFoundError:
        return
    record = next((Path(str(file.locate())) for file in files if file.name == "RECORD"), None)
    if record is None or not os.access(record, os.W_OK):
        return
    listed = {row.partition(",")[0] for row in record.read_text().splitlines()}
    place = os.path.relpath(directory, record.parent.parent)
    layout = Path(place).parent / RELEASE_DIR.name
    made = [*(f"{place}/{name}" for name in CONDOR_NAMES), *(f"{layout}/{name}" for name in LAYOUT)]
    missing = [row for row in made if row not in listed]
    if missing:
        with record.open("a") as stream:
            stream.writelines(f"{row},,\n" for row in missing)


def version(args: list[str], inv: Invocation) -> int:
    """``condor_version``: the release of HTCondor that is followed, in the two lines that probes read."""
    for word in args:
        option = word.lstrip("-").lower()
        if option and "help".startswith(option):
            inv.out("usage: condor_version\nThe release of HTCondor that is followed, and the platform.")
            return 0
    for word in args:
        option = word.lstrip("-").lower()
        known = any(name.startswith(option) for name in ("version", "platform", "arch", "opsys", "build_date"))
        if word.startswith("-") and not (known and len(option) > 1):
            raise UnknownOptionError(word)
    odd = next((word for word in args if not word.startswith("-")), None)
    if odd is not None:
        inv.err(f"ERROR: invalid argument: '{odd}'")
        inv.err("Usage: condor_version")
        return 1
    inv.out(CONDOR_VERSION)
    inv.out(condor_platform())
    return 0

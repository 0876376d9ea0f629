"""Container images made on the spot from the host's own programs, and where Apptainer is."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

#: Where `.ci/apptainer` puts it: Debian 12 has no package of it.
OURS = "/opt/slotwise-apptainer/usr/bin/apptainer"
#: What an image has of the host's programs.
PROGRAMS = ("sh", "cat", "env", "id", "sleep", "ls", "touch", "readlink", "pwd", "df", "head", "kill")


def apptainer() -> str:
    """The program; empty where there is none."""
    return next((found for name in ("apptainer", "singularity", OURS) if (found := shutil.which(name))), "")


def image_directory(top: Path) -> Path:
    """An unpacked image: some of the host's programs with their libraries, and a file that only the image has."""
    for name in ("proc", "sys", "dev", "etc", "tmp", "var/tmp", "root", "home", "bin", "target"):
        (top / name).mkdir(parents=True, exist_ok=True)
    (top / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (top / "etc/group").write_text("root:x:0:\n")
    (top / "etc/image").write_text("made by the test\n")
    for name in ("hosts", "localtime", "resolv.conf"):
        (top / "etc" / name).touch()
    needed = set()
    for name in PROGRAMS:
        program = os.path.realpath(shutil.which(name) or name)
        shutil.copy(program, top / "bin" / name)
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        needed |= set(re.findall(r"(/\S+) \(0x", said))
    for library in needed:
        place = top / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(library), place)
    open_to_all(top)
    return top


def open_to_all(top: Path) -> None:
    """Let every account read and start what is there, whatever the umask was."""
    for path in (top, *top.rglob("*")):
        path.chmod(0o755)


def image_file(program: str, directory: Path, file: Path) -> Path:
    """The same as an image file of Apptainer's (SIF)."""
    made = subprocess.run(
        [program, "build", "-F", str(file), str(directory)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    file.chmod(0o644)
    return file


def tree_of(directory: Path) -> bytes:
    """An image's files as a tar archive, the layer of a registry."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in sorted(path.name for path in directory.iterdir()):
            tar.add(directory / name, name)
    return file.getvalue()

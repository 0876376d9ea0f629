"""Container images made on the spot from the host's own programs, and the runtimes that can run them."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

#: Where `.ci/apptainer` puts it: Debian 12 has no package of it.
_OURS = "/opt/slotwise-apptainer/usr/bin/apptainer"
_PROGRAMS = ("sh", "cat", "env", "id", "sleep", "ls", "touch", "readlink", "pwd", "df", "head", "kill")


def apptainer() -> str:
    """The program; the test is skipped without."""
    for name in ("apptainer", "singularity", _OURS):
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs apptainer on PATH, or {_OURS}: .ci/apptainer installs it")


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
    for name in _PROGRAMS:
        program = os.path.realpath(shutil.which(name) or pytest.skip(f"needs {name}"))
        shutil.copy(program, top / "bin" / name)
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        needed |= set(re.findall(r"(/\S+) \(0x", said))
    for library in needed:
        place = top / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(library), place)
    for path in (top, *(path for path in top.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    return top


def image_file(program: str, directory: Path, file: Path) -> Path:
    """The same as an image file of Apptainer's (SIF)."""
    made = subprocess.run(
        [program, "build", "-F", str(file), str(directory)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"needs an apptainer that builds images: {made.stderr[-300:]}")
    file.chmod(0o644)
    return file


def tree_of(directory: Path) -> bytes:
    """An image's files as a tar archive, the layer of a registry."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in sorted(path.name for path in directory.iterdir()):
            tar.add(directory / name, name)
    return file.getvalue()

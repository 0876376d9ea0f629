"""A former version of the package, installed beside this one: for pools in which two versions work together.

The wheel is that of SLOTWISE_FORMER_WHEEL, else one in ``build/former``, where ``make former FORMER=<tag>`` puts it.
Its dependencies are those of this version's installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from tests.support.pool import Pool

VARIABLE = "SLOTWISE_FORMER_WHEEL"
_BUILT = Path(__file__).resolve().parents[2] / "build" / "former"


def wheel() -> Path | None:
    """The wheel of the former version; None: there is none."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return next(iter(sorted(_BUILT.glob("slotwise-*.whl"))), None)


def installed(directory: Path) -> str:
    """Install the wheel into ``directory``; returns its interpreter."""
    found = wheel()
    assert found is not None
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    with zipfile.ZipFile(found) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(directory / "bin" / "python")


class PoolOf(Pool):
    """A pool whose commands and daemons are those of an interpreter's installation."""

    def __init__(self, root: Path, config: str, python: str) -> None:
        super().__init__(root, config)
        self.command = (python, "-m", "slotwise")
        if python != sys.executable:
            del self.env["PYTHONPATH"]

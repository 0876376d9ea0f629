"""The build backend: maturin, plus the native launcher in the wheel's scripts.

maturin builds one kind of thing per wheel, the extension module. The `slotwise` command is a small native program
beside it, so this backend builds that first and lays it where maturin takes extra scripts from
(``[tool.maturin] data``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401  (hooks that need nothing more)
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

# maturin's Python half calls its native half by name; without build isolation (`make build`) nobody has put the
# environment's commands on the path.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "build_support" / "wheel-data" / "scripts"


def _launcher() -> None:
    cargo = ["cargo", "rustc", "--release", "--locked", "-p", "slotwise-front", "--bin", "slotwise"]
    # Without shared libraries to load each command starts 0.3 ms earlier. Some hosts have no libc to link so (Fedora
    # has it in a package of its own); what else is wrong the second build says.
    static = [*cargo, "--", "-C", "target-feature=+crt-static"]
    if subprocess.run(static, cwd=ROOT, check=False, capture_output=True).returncode:
        subprocess.run(cargo, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target / "release" / "slotwise", SCRIPTS / "slotwise")


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """The wheel's metadata alone."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """The wheel: extension module, Python package, launcher."""
    _launcher()
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """The same for an editable installation."""
    _launcher()
    name: str = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """The source distribution."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)  # maturin wants to find it
    name: str = maturin.build_sdist(sdist_directory, config_settings)
    return name

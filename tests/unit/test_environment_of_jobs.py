"""`getenv` gives jobs what the caller's environment has, and nothing that Python or this package adds to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C.UTF-8", "GRPC_DNS_RESOLVER": "ares"}], ids=["none", "his own"])
def test_getenv_gives_what_the_caller_has(tmp_path: Path, given: dict[str, str]) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\ntransfer_executable = false\ngetenv = true\nqueue\n")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "_CONDOR_SLOTWISE_MIN_UID": "0", **given}
    done = subprocess.run(
        [sys.executable, "-m", "slotwise", "submit", "-dry-run", "-", "a.sub"],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("Environment = ")]
    words = said.partition(" = ")[2].strip('"').split()
    assert words == sorted(f"{name}={value}" for name, value in env.items())

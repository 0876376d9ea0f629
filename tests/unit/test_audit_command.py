"""`make audit`: what it finds, and what it could not look at, are told apart by its status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_AUDIT = Path(__file__).resolve().parents[2] / "build_support" / "audit.py"
_SOUND = {"name": "grpcio", "version": "1", "vulns": []}
_FAULTY = {"name": "grpcio", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
_UNKNOWN = {"name": "grpcio", "skip_reason": "the index says nothing"}
_OF_CRATE = {"package": {"name": "pyo3", "version": "1"}, "advisory": {"id": "RUSTSEC-1"}}


@pytest.mark.skipif(not _AUDIT.exists(), reason="needs the sources of the build")
@pytest.mark.parametrize(
    ("python", "rust", "status", "words"),
    [
        ([_SOUND], [], 0, ["requirements.lock: no known", "Cargo.lock: no known", "deny.toml: licences"]),
        (
            [_SOUND, _UNKNOWN],
            [],
            2,
            ["NOT CHECKED: requirements.lock (the index tells", "of 1 of 2"],
        ),
        (None, [], 2, ["NOT CHECKED: requirements.lock (pip install pip-audit)", "Cargo.lock: no known"]),
        ([_SOUND], None, 2, ["NOT CHECKED: Cargo.lock (cargo install cargo-audit)"]),
        (None, None, 2, ["NOT CHECKED: requirements.lock", "NOT CHECKED: Cargo.lock"]),
        ([_FAULTY], None, 1, ["grpcio 1: PYSEC-1, fixed in ['2']", "NOT CHECKED: Cargo.lock"]),
        (None, [_OF_CRATE], 1, ["Cargo.lock: pyo3 1: RUSTSEC-1", "NOT CHECKED: requirements.lock"]),
    ],
)
def test_what_was_not_looked_at_is_no_sound_result(
    python: list[object] | None, rust: list[object] | None, status: int, words: list[str], tmp_path: Path
) -> None:
    found = {"vulnerabilities": {"list": rust}}
    done = audited(
        tmp_path, None if python is None else {"dependencies": python}, None if rust is None else found, "exit 0"
    )
    assert done.returncode == status, done.stdout + done.stderr
    for word in words:
        assert word in done.stdout


@pytest.mark.skipif(not _AUDIT.exists(), reason="needs the sources of the build")
@pytest.mark.parametrize(
    ("verdict", "status", "word"),
    [
        ("exit 0", 0, "deny.toml: licences, sources and crates are as it allows"),
        ("echo 'error[rejected]: GPL-3.0' >&2; exit 4", 1, "error[rejected]: GPL-3.0"),
        ("echo 'failed to fetch crates' >&2; exit 1", 2, "NOT CHECKED: deny.toml (the crates are not at hand"),
        (None, 2, "NOT CHECKED: deny.toml (cargo install cargo-deny)"),
    ],
)
def test_crates_are_compared_with_what_is_allowed(verdict: str | None, status: int, word: str, tmp_path: Path) -> None:
    done = audited(tmp_path, {"dependencies": [_SOUND]}, {"vulnerabilities": {"list": []}}, verdict)
    assert done.returncode == status, done.stdout + done.stderr
    assert word in done.stdout


def audited(
    bin_dir: Path, python: object | None, rust: object | None, deny: str | None
) -> subprocess.CompletedProcess[str]:
    """Run the audit with tools that give these answers; None: the tool is missing. ``deny`` is a shell command."""

    def tool(name: str, script: str) -> None:
        path = bin_dir / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def printing(answer: object) -> str:
        return f"cat <<'END'\n{json.dumps(answer)}\nEND"

    if python is not None:
        tool("pip-audit", printing(python))
    if rust is not None:
        tool("cargo-audit", "")
    if deny is not None:
        tool("cargo-deny", "")
    tool("cargo", f'if [ "$1" = deny ]; then {deny or "exit 101"}; else\n{printing(rust)}\nfi')
    # Without the scripts beside this Python, where a pip-audit may be.
    code = (
        f"import sysconfig, runpy; sysconfig.get_path = lambda _: {str(bin_dir)!r}; "
        f"runpy.run_path({str(_AUDIT)!r}, run_name='__main__')"
    )
    env = {"PATH": f"{bin_dir}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)

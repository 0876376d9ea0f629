"""`up` says when the accounts that a pool of root's serves cannot run the installation that it runs from."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon import installation

from tests.support import host
from tests.support.accounts import host_users
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.host


@pytest.fixture
def top() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def installed(top: Path) -> Path:
    """An interpreter that is a link to one elsewhere, below three directories."""
    real = top / "pythons/3.11/bin/python3.11"
    for path in (real, top / "venv/bin/python"):
        path.parent.mkdir(parents=True)
    real.write_text("")
    (top / "venv/bin/python").symlink_to(real)
    for path in (real, *top.rglob("*")):
        path.chmod(0o755)
    return top / "venv/bin/python"


@pytest.mark.parametrize("closed", ["venv", "venv/bin", "pythons", "pythons/3.11/bin"])
def test_the_directory_that_is_closed_is_named(top: Path, closed: str) -> None:
    python = installed(top)
    assert installation.closed_to_others([str(python)]) is None
    (top / closed).chmod(0o750)
    assert installation.closed_to_others([str(python)]) == (str(python), str(top / closed))


def test_a_file_that_others_cannot_read_is_named(top: Path) -> None:
    python = installed(top)
    (top / "pythons/3.11/bin/python3.11").chmod(0o750)
    assert installation.closed_to_others([str(python)]) == (str(python), str(python))


@host.needs(host.root, host.open_installation)
def test_up_names_the_directory_and_the_remedy_and_is_silent_where_all_can_enter(top: Path) -> None:
    """A virtual environment in root's home, say: every command of users failed without a word."""
    venv = top / "closed" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv.parent).chmod(0o700)
    pool = Pool(top / "pool", "NUM_CPUS = 1\n")
    packages = f"{pool.env['PYTHONPATH']}:{Path(sys.prefix, 'lib')}"
    env = pool.env | {"PYTHONPATH": packages}

    def up() -> str:
        words = [*(opened() or []), str(venv / "bin/python"), "-m", "slotwise", "up"]
        done = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True, timeout=2 * LIMIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        pool.down()
        return done.stdout + done.stderr

    with host_users("bob") as (bob,):
        try:
            said = " ".join(up().split())
            assert (
                f"cannot enter {venv.parent}, and {venv}/bin/python of this installation is reached through it" in said
            )
            assert f"chmod o+x {venv.parent}" in said
            assert bob.run(f"{venv}/bin/python -m slotwise q", check=False).returncode != 0
            (venv.parent).chmod(0o711)
            assert "is reached through it" not in up()
            pool.home.root.chmod(0o700)  # nobody else is served
            (venv.parent).chmod(0o700)
            assert "is reached through it" not in up()
        finally:
            pool.destroy()

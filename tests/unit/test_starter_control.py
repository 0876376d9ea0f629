"""Where control files go, and that those of deleted pools are found."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.execution.control_dir import control_root, discard, orphaned


def test_each_execute_directory_has_its_own(tmp_path: Path) -> None:
    first, second = (control_root(tmp_path / name, str(tmp_path / "c")) for name in ("a", "b"))
    assert first != second and first.parent == second.parent == tmp_path / "c"
    assert stat.S_IMODE(first.stat().st_mode) == 0o711
    assert control_root(tmp_path / "a", str(tmp_path / "c")) == first


def test_without_memory_they_lie_below_execute(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("disk / ext4 rw 0 0\n")
    root = control_root(tmp_path / "execute", mounts=mounts)
    assert root.parent == tmp_path / "execute" / ".starter"


def test_a_place_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="no place for control files"):
        control_root(tmp_path / "execute", str(tmp_path / "file"))


def test_those_of_deleted_pools_are_found_and_removed(tmp_path: Path) -> None:
    places = tmp_path / "c"
    for name in ("mine", "living"):
        (tmp_path / name).mkdir()
    mine, living, dead = (control_root(tmp_path / name, str(places)) for name in ("mine", "living", "dead"))
    assert orphaned(mine) == [dead]
    (dead / "lease").touch()
    discard(dead)
    assert not dead.exists() and living.exists()


def test_one_that_another_daemon_holds_is_kept_though_its_execute_is_not_seen(tmp_path: Path) -> None:
    """Seen from another mount name space, its EXECUTE is not there."""
    mine, held = (control_root(tmp_path / name, str(tmp_path / "c")) for name in ("mine", "held"))
    program = (
        "import sys; from pathlib import Path; from slotwise.execution.control_dir import Hold\n"
        "hold = Hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        assert orphaned(mine) == []
        other.kill()
    assert orphaned(mine) == [held]


def test_a_directory_with_runs_is_kept(tmp_path: Path) -> None:
    root = control_root(tmp_path / "a", str(tmp_path / "c"))
    (root / "dir_1_1").mkdir()
    discard(root)
    assert (root / "dir_1_1").exists()

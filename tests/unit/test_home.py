"""Where a pool keeps its things."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from slotwise import home as home_module
from slotwise.errors import DeniedError
from slotwise.home import PoolHome


def test_the_home_is_named_by_the_environment() -> None:
    assert PoolHome.from_env({"SLOTWISE_HOME": "/a/b"}).root == Path("/a/b")
    assert PoolHome.from_env({"HOME": "/home/ann"}).root == Path("/home/ann/.slotwise")


def test_the_pool_of_the_host_serves_those_who_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, ann = tmp_path / "home", tmp_path / "ann"
    file.write_text("/var/lib/slotwise\n")
    assert PoolHome.of_host(file) == PoolHome(Path("/var/lib/slotwise"))
    assert PoolHome.of_host(tmp_path / "none") is None
    monkeypatch.setattr(PoolHome, "of_host", classmethod(lambda cls: PoolHome(Path("/var/lib/slotwise"))))
    assert PoolHome.from_env({"HOME": str(ann)}).root == Path("/var/lib/slotwise")
    assert PoolHome.from_env({"HOME": str(ann), "SLOTWISE_HOME": "/a"}).root == Path("/a")
    PoolHome(ann / ".slotwise").create()
    assert PoolHome.from_env({"HOME": str(ann)}).root == ann / ".slotwise", "a pool of one's own comes first"


def test_a_home_directory_that_cannot_be_looked_into_has_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    monkeypatch.setattr(PoolHome, "of_host", classmethod(lambda cls: PoolHome(Path("/var/lib/slotwise"))))
    assert PoolHome.from_env({"HOME": "/home/ann"}).root == Path("/var/lib/slotwise")


def test_a_pool_of_the_host_that_anybody_could_have_named_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "home"
    file.write_text("/tmp/evil\n")
    file.chmod(0o666)
    with pytest.raises(DeniedError, match="can be written by others"):
        PoolHome.of_host(file)


def test_what_is_secret_is_closed_and_the_rest_is_not(tmp_path: Path) -> None:
    made = PoolHome(tmp_path / "pool")
    made.create()
    assert stat.S_IMODE(made.run.stat().st_mode) == 0o755, "users of the host find the daemons there"
    for path in (made.secrets, made.spool):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.execute.stat().st_mode) == 0o755


@pytest.mark.parametrize(("mode", "inside"), [(0o755, True), (0o711, True), (0o700, False), (0o750, False)])
def test_jobs_of_roots_pool_can_reach_their_scratch_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, inside: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(home_module, "_ELSEWHERE", tmp_path / "elsewhere")
    above = tmp_path / "above"
    above.mkdir(mode=mode)
    # Only what is at and below `above` is looked at: pytest's own directories are closed.
    monkeypatch.setattr(home_module, "open_to_others", lambda path: open_from(above, path))
    made = PoolHome(above / "pool")
    assert (made.execute == above / "pool" / "execute") is inside
    if not inside:
        assert made.execute.is_relative_to(tmp_path / "elsewhere")
        assert PoolHome(above / "other").execute != made.execute
    made.create()
    assert stat.S_IMODE(made.execute.stat().st_mode) == 0o755
    former = made.execute
    above.chmod(0o755)
    assert PoolHome(above / "pool").execute == former, "a home that is opened later keeps its jobs where they are"


def open_from(top: Path, path: Path) -> bool:
    """What ``open_to_others`` says of the part of ``path`` from ``top`` down."""
    places = [place for place in (path, *path.parents) if place.is_relative_to(top) and place.exists()]
    return all(place.stat().st_mode & 0o001 for place in places)


def test_a_pool_of_a_plain_user_keeps_everything_in_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert PoolHome(closed / "pool").execute == closed / "pool" / "execute"


def test_a_new_home_is_its_users_alone_to_write_whatever_the_umask_is(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        home = PoolHome(tmp_path / "home")
        home.create()
    finally:
        os.umask(former)
    assert home.root.stat().st_mode & 0o022 == 0
    assert home.require_trusted() == home

"""Paths that users name are opened as the system does, but for magic links and process file systems."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.daemon.user_paths import open_path, open_stepwise, parent_of

Open = Callable[..., int]


@pytest.fixture(params=[open_path, open_stepwise], ids=["openat2", "stepwise"])
def opening(request: pytest.FixtureRequest) -> Open:
    chosen: Open = request.param
    return chosen


def read(opening: Open, path: str) -> bytes:
    descriptor = opening(path, os.O_RDONLY)
    try:
        assert not os.get_inheritable(descriptor)
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def test_files_are_reached_through_ordinary_links(
    opening: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    (tmp_path / "link").symlink_to("c/../a/./file")
    monkeypatch.chdir(tmp_path)
    for name in ("a/file", "b/file", "c/file", "link", "./c//file", str(tmp_path / "link"), "a/../link"):
        assert read(opening, name) == b"x", name


@pytest.mark.parametrize("way", ["fd", "thread", "self", "pid", "link", "directory", "cwd"])
def test_magic_links_are_not_followed(way: str, opening: Open, tmp_path: Path) -> None:
    secret = tmp_path / "closed" / "secret"
    secret.parent.mkdir()
    secret.write_text("x")
    descriptor, directory = os.open(secret, os.O_RDONLY), os.open(secret.parent, os.O_RDONLY)
    (tmp_path / "link").symlink_to(f"/proc/self/fd/{descriptor}")
    ways = {
        "fd": f"/dev/fd/{descriptor}",
        "thread": f"/proc/thread-self/fd/{descriptor}",
        "self": f"/proc/self/fd/{descriptor}",
        "pid": f"/proc/{os.getpid()}/fd/{descriptor}",
        "link": str(tmp_path / "link"),
        "directory": f"/proc/self/fd/{directory}/secret",
        "cwd": f"/proc/self/cwd/../../../../../../{secret}",
    }
    try:
        with pytest.raises(OSError) as refused:
            opening(ways[way], os.O_RDONLY)
        # Stepwise, /proc/self is refused before its target is known to be harmless.
        assert refused.value.errno == errno.ELOOP
    finally:
        os.close(descriptor)
        os.close(directory)


def test_nothing_of_a_process_file_system_is_opened() -> None:
    for path in (f"/proc/{os.getpid()}/environ", "/proc/self/maps", "/proc/version"):
        with pytest.raises(PermissionError):
            open_path(path, os.O_RDONLY)


def test_the_last_name_may_be_new_and_errors_are_the_systems(opening: Open, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("target")
    os.close(opening(str(tmp_path / "here"), os.O_WRONLY | os.O_CREAT, 0o600))
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600
    (tmp_path / "round").symlink_to("round")
    for name, flags, expected in (
        ("none/file", os.O_RDONLY, errno.ENOENT),
        ("none", os.O_RDONLY, errno.ENOENT),
        ("target/file", os.O_RDONLY, errno.ENOTDIR),
        ("round", os.O_RDONLY, errno.ELOOP),
        ("here", os.O_RDONLY | os.O_NOFOLLOW, errno.ELOOP),
        ("target", os.O_WRONLY | os.O_CREAT | os.O_EXCL, errno.EEXIST),
    ):
        with pytest.raises(OSError) as failed:
            opening(str(tmp_path / name), flags)
        assert failed.value.errno == expected, name
        assert failed.value.filename == str(tmp_path / name)


def test_the_directory_of_a_path_is_opened_likewise(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with parent_of(str(tmp_path / "file")) as (directory, name):
        os.unlink(name, dir_fd=directory)
    assert not (tmp_path / "file").exists()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError), parent_of(f"/proc/self/fd/{descriptor}/file"):
            pass
    finally:
        os.close(descriptor)


def test_a_path_with_a_zero_byte_is_refused_and_not_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("secret")
    with pytest.raises(OSError, match="zero bytes"):
        open_path(f"{tmp_path}/a\0x", os.O_RDONLY)

"""Files that are to be there after a power cut: what is flushed, in which order, and how many at once.

Whether the disk has it is shown on a file system that loses power, in tests/host/test_power_cuts.py.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from slotwise import durable_files


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was flushed: (call, path)."""
    calls: list[tuple[str, str]] = []

    def noting(name: str) -> None:
        home = durable_files if name == "_syncfs" else os
        honest = getattr(home, name)

        def call(descriptor: int) -> None:
            calls.append((name, Path(f"/proc/self/fd/{descriptor}").readlink().name))
            honest(descriptor)

        monkeypatch.setattr(home, name, call)

    for name in ("fsync", "fdatasync", "_syncfs"):
        noting(name)
    return calls


def test_few_files_are_flushed_each_and_their_directory_once(tmp_path: Path, flushed: list[tuple[str, str]]) -> None:
    names = ["a", "b", "c"]
    for name in names:
        (tmp_path / name).write_text(name)
    durable_files.flush([*(str(tmp_path / name) for name in names), str(tmp_path / "a")])
    assert flushed == [*(("fdatasync", name) for name in names), ("fsync", tmp_path.name)]


def test_many_files_cost_one_flush(tmp_path: Path, flushed: list[tuple[str, str]]) -> None:
    for number in range(500):
        (tmp_path / str(number)).write_text("x")
    durable_files.flush(str(tmp_path / str(number)) for number in range(500))
    assert flushed == [("_syncfs", tmp_path.name)]


def test_new_directories_are_flushed_up_to_the_first_that_was_there(
    tmp_path: Path, flushed: list[tuple[str, str]]
) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/file").write_text("x")
    durable_files.flush([str(tmp_path / "d/e/file")], below=str(tmp_path))
    assert flushed == [("fdatasync", "file"), ("fsync", "e"), ("fsync", "d"), ("fsync", tmp_path.name)]


def test_what_is_gone_or_no_file_is_left_alone(tmp_path: Path, flushed: list[tuple[str, str]]) -> None:
    os.mkfifo(tmp_path / "pipe")
    durable_files.flush([str(tmp_path / "gone"), str(tmp_path / "pipe"), "/dev/null"])
    assert flushed == []


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("x")

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        durable_files.flush([str(tmp_path / "a")])


def test_a_file_is_whole_on_the_disk_before_it_takes_the_place_of_another(
    tmp_path: Path, flushed: list[tuple[str, str]]
) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    durable_files.replace(tmp_path / "new", tmp_path / "old")
    assert flushed == [("fsync", "new"), ("fsync", tmp_path.name)]
    assert (tmp_path / "old").read_text() == "new" and not (tmp_path / "new").exists()

"""Files that readers find whole or not at all."""

from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path

import pytest
from slotwise import whole_file


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_text_and_bytes_take_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data, found in (("ä\udcff", b"\xc3\xa4\xff"), (b"\0\1", b"\0\1"), ("", b"")):
        whole_file.write(path, data)
        assert path.read_bytes() == found
    assert names(tmp_path) == ["file"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "aim").write_text("kept")
    (tmp_path / "file").symlink_to("aim")
    whole_file.write(tmp_path / "file", "new")
    assert (tmp_path / "aim").read_text() == "kept"
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize(("exact", "found"), [(True, 0o664), (False, 0o600)])
def test_rights_are_exact_or_less_the_umask(tmp_path: Path, exact: bool, found: int) -> None:
    former = os.umask(0o077)
    try:
        whole_file.write(tmp_path / "file", "", mode=0o664, exact=exact)
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == found


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    with pytest.raises(RuntimeError), whole_file.replaced(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_text() == "kept"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("size", [9_000, 900_000])
def test_a_file_for_which_there_is_no_room_leaves_no_part_of_it(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, most[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            whole_file.write(path, "x" * size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
        signal.signal(signal.SIGXFSZ, former)
    assert (path.read_text(), names(tmp_path)) == ("kept", ["file"])


def test_an_error_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "absent" / "file", tmp_path / "directory"):
        with pytest.raises(OSError) as caught:
            whole_file.write(path, "text")
        assert caught.value.filename == str(path)
    assert names(tmp_path) == ["directory"]


def test_a_name_as_long_as_the_file_system_takes(tmp_path: Path) -> None:
    whole_file.write(tmp_path / ("x" * 255), "text", lasts=False)
    assert names(tmp_path) == ["x" * 255]

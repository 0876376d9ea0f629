"""``condor_manifest``, as HTCondor's test_condor_manifest asks for it, beside ``sha256sum``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.errors import UsageError
from slotwise.transfer.checkpoint_manifest import (
    check_files,
    checksum_in,
    create,
    file_in,
    is_sound,
    line_for,
    number_in,
)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("failure.z", -1),
        ("failure.000", -1),
        ("failure.0001", -1),
        ("_condor_checkpoint_MANIFEST.z", -1),
        ("_condor_checkpoint_MANIFEST.", -1),
        ("_condor_checkpoint_MANIFEST.000", 0),
        ("_condor_checkpoint_MANIFEST.0001", 1),
        ("_condor_checkpoint_MANIFEST.0101", 101),
        ("_condor_checkpoint_MANIFEST.-101", -1),
    ],
)
def test_the_number_is_that_of_a_manifest(name: str, number: int) -> None:
    assert number_in(name) == number


def test_a_line_has_a_checksum_and_a_file() -> None:
    assert (checksum_in("ab *c d"), file_in("ab *c d"), file_in("ab c"), file_in("ab")) == ("ab", "c d", "c", "")


def checks(path: str) -> bool:
    """Whether the listed files are as listed."""
    try:
        check_files(path)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "\n\n\n", "9876 abcdef\n", "abcd 1234 @$%^\n"])
def test_what_is_no_manifest_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "MANIFEST").write_text(text)
    assert not is_sound(str(tmp_path / "MANIFEST")) and not checks(str(tmp_path / "MANIFEST"))
    assert not is_sound(str(tmp_path / "none")) and not checks(str(tmp_path / "none"))


def changed_last(lines: list[str]) -> list[str]:
    return [*lines[:-1], "!" + lines[-1][1:]]


def changed_hash(lines: list[str]) -> list[str]:
    return [lines[0][1] + lines[0][0] + lines[0][2:], *lines[1:]]


def changed_name(lines: list[str]) -> list[str]:
    return [lines[0][:-1] + "!", *lines[1:]]


@pytest.mark.parametrize(
    ("change", "sound", "same"),
    [(list, True, True), (changed_last, False, True), (changed_hash, False, False), (changed_name, False, False)],
)
def test_a_manifest_vouches_for_itself_and_for_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[list[str]], list[str]], sound: bool, same: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c" / "sub").mkdir(parents=True)
    (tmp_path / "c" / "a").write_text("a")
    (tmp_path / "c" / "sub" / "empty").touch()
    (tmp_path / "c" / "sub" / "link").symlink_to("../a")
    os.mkfifo(tmp_path / "c" / "pipe")
    create("c", "MANIFEST")
    lines = (tmp_path / "MANIFEST").read_text().splitlines()
    assert [file_in(line) for line in lines] == ["c/a", "c/sub/empty", "c/sub/link", "MANIFEST"]
    assert lines[0] == f"{hashlib.sha256(b'a').hexdigest()} *c/a" == line_for("c/a").strip()
    (tmp_path / "MANIFEST").write_text("".join(f"{line}\n" for line in change(lines)))
    assert (is_sound("MANIFEST"), checks("MANIFEST")) == (sound, same)


def test_a_manifest_of_nothing_vouches_for_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    create("c", "MANIFEST")
    assert is_sound("MANIFEST") and not checks("MANIFEST")

"""The manifests of checkpoints that jobs keep elsewhere, and what is deleted by them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
import slotwise
from slotwise.errors import UsageError
from slotwise.schedd.transfer.checkpoint_folders import folder_of, with_work
from slotwise.transfer import checkpoint_manifest
from slotwise.transfer.checkpoint_map import read, words_for

SUM = hashlib.sha256(b"x").hexdigest()
TOOL = Path(slotwise.__file__).parent / "libexec" / "cleanup_locally_mounted_checkpoint"


def manifest(number: int, *names: str) -> bytes:
    """A manifest, whatever the names are."""
    lines = "".join(f"{SUM} *{name}\n" for name in names).encode()
    own = f"{hashlib.sha256(lines).hexdigest()} *{checkpoint_manifest.name_of(number)}\n"
    return lines + own.encode()


def test_a_manifest_is_what_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("x")
    name = checkpoint_manifest.name_of(7)
    text = checkpoint_manifest.text_of([(SUM, "a b")], name)
    (tmp_path / name).write_bytes(text)
    assert checkpoint_manifest.is_sound(str(tmp_path / name))
    assert checkpoint_manifest.files_in(text) == [(SUM, "a b")]
    (tmp_path / "list").write_bytes(text.splitlines(keepends=True)[0])
    subprocess.run(["sha256sum", "--check", "--strict", "list"], cwd=tmp_path, check=True, capture_output=True)
    assert not checkpoint_manifest.is_sound_text(text.replace(b"a b", b"a c"), name)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "", ".", "a\rb", " a", "a/" * 300 + "b"])
def test_a_manifest_leads_nowhere_else(name: str) -> None:
    with pytest.raises(UsageError):
        checkpoint_manifest.files_in(manifest(0, "good", name))
    with pytest.raises(UsageError):
        checkpoint_manifest.text_of([(SUM, name)], checkpoint_manifest.name_of(0))


def test_the_last_good_one_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 3, 1)
    assert folder.last_good() is None and folder.record() is None
    for number in range(5):
        folder.keep(number, manifest(number, "a"), f"x://h/{number}/", "alice", "ad\n", good=number != 3)
    assert [one.number for one in folder.unwanted(has_left=False)] == [3]
    folder.retire(2)
    assert [(one.number, one.is_whole) for one in folder.unwanted(has_left=False)] == [(0, True), (1, True), (3, False)]
    assert folder.last_good() == folder.path / checkpoint_manifest.name_of(4)
    (folder.path / checkpoint_manifest.name_of(4)).write_bytes(manifest(4, "a")[:-5])
    assert folder.last_good() == folder.path / checkpoint_manifest.name_of(2)
    folder.reject(2)
    assert folder.last_good() is None
    assert [one.number for one in folder.unwanted(has_left=True)] == [0, 1, 2, 3, 4]
    record = folder.record()
    assert record is not None and record.account == "alice" and record.places[4] == "x://h/4/"
    assert with_work(tmp_path, lambda cluster, proc: True) == [(folder, False)]
    assert with_work(tmp_path, lambda cluster, proc: (cluster, proc) != ("3", "1")) == [(folder, True)]
    assert with_work(tmp_path, lambda cluster, proc: False, {"3": {"1", "2"}, "4": {"1"}}) == [(folder, True)]
    assert with_work(tmp_path, lambda cluster, proc: False, {"3": {"0"}, "13": {"1"}}) == []
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_places_of_another_account_are_not_kept(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 1, 0)
    folder.keep(0, manifest(0, "a"), "x://h/0/", "alice", "ad", good=True)
    folder.keep(1, manifest(1, "a"), "x://h/1/", "bob", "ad", good=True)
    record = folder.record()
    assert record is not None and (record.account, record.places) == ("bob", {1: "x://h/1/"})


def test_the_longest_line_says_how_files_are_deleted() -> None:
    text = b"* osdf:// far,-a\n* osdf:///vo/ near,-prefix,\\0\n* file:///x /opt/tool\n"
    lines = read(text)
    assert words_for(lines, "osdf:///vo/job/0001/", "/libexec") == ["/libexec/near", "-prefix", "osdf:///vo/"]
    assert words_for(lines, "osdf:///other", "/libexec") == ["/libexec/far", "-a"]
    assert words_for(lines, "file:///x/y", "/libexec") == ["/opt/tool"]
    with pytest.raises(UsageError, match="no line"):
        words_for(lines, "https://h/", "/libexec")


def delete(path: Path, file: str, place: str = "job_1/0001") -> int:
    """Call the program that deletes what is mounted here."""
    words = [str(TOOL), "-prefix", "x://store", "-path", str(path)]
    words += ["-from", f"x://store/{place}", "-delete", file, "-jobad", "/ad", "-ignore-missing-files"]
    return subprocess.run(words, check=False, capture_output=True).returncode


def test_a_mounted_checkpoint_is_deleted(tmp_path: Path) -> None:
    place = tmp_path / "store" / "job_1" / "0001"
    (place / "d" / "e").mkdir(parents=True)
    (place / "d" / "e" / "f").touch()
    (place / "-rf x").touch()
    (tmp_path / "other").touch()
    assert delete(tmp_path / "store", "d/e/f") == 0
    assert [path.name for path in place.iterdir()] == ["-rf x"]
    assert delete(tmp_path / "store", "../../../other") == 1
    assert delete(tmp_path / "store", "other", "..") == 1
    assert delete(tmp_path / "store", "-rf x") == 0
    assert list((tmp_path / "store").iterdir()) == [] and (tmp_path / "other").exists()
    assert delete(tmp_path / "store", "gone") == 0

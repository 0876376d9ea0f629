"""The manifest of a run, made in a directory that the job may have prepared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon.user_paths import open_path
from slotwise.errors import UsageError
from slotwise.execution.arguments import join_new, split_new
from slotwise.execution.job_view import JobView, read_job
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.transfer.manifest import MOST_LEVELS, record_environment, record_files
from slotwise.starter.transfer.transfer import choose

from tests.support import host

JOB = Identity(uid=None, gid=None)


def view(**values: object) -> JobView:
    known = {"ClusterId": 7, "ProcId": 2, "Cmd": "/bin/true", **values}
    return read_job(known.get, "ann@here")


def test_a_name_or_the_wish_alone_requests_one() -> None:
    assert view().manifest == "" and view(ManifestDesired=False).manifest == ""
    assert view(ManifestDesired=True).manifest == "7_2_manifest"
    assert view(ManifestDir="lists", ManifestDesired=False).manifest == "lists", "as in HTCondor"
    for outside in ("/tmp/lists", "../lists", "a/../../b", "."):
        with pytest.raises(UsageError, match="scratch directory"):
            view(ManifestDir=outside)


def test_links_pipes_and_odd_names_are_named_and_left_alone(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "d" / "sub").mkdir(parents=True)
    (scratch / "d" / "sub" / "s").touch()
    (scratch / "loop").symlink_to(".")
    (scratch / "secrets").symlink_to("/etc")
    os.mkfifo(scratch / "pipe")
    (scratch / "two\nlines").touch()
    Path(os.fsdecode(bytes(scratch) + b"/\xff\\")).touch()
    record_files(scratch, "m", "out", JOB)
    assert (scratch / "m" / "out").read_bytes() == (
        b"./d/\n./d/sub/\n./d/sub/s\n./loop\n./m/\n./m/out\n./pipe\n./secrets\n./two\nlines\n./\xff\\\n"
    )
    assert (scratch / "m").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("planted", ["link", "pipe"])
def test_what_the_job_plants_in_the_way_is_replaced(planted: str, tmp_path: Path) -> None:
    scratch, target = tmp_path / "scratch", tmp_path / "of_another"
    (scratch / "m").mkdir(parents=True)
    target.write_text("kept")
    if planted == "link":
        (scratch / "m" / "out").symlink_to(target)
    else:
        os.mkfifo(scratch / "m" / "out")
    record_files(scratch, "m", "out", JOB)
    assert target.read_text() == "kept" and (scratch / "m" / "out").read_text() == "./m/\n./m/out\n"


def test_a_directory_that_is_a_link_is_not_written_into(tmp_path: Path) -> None:
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir()
    (scratch / "m").symlink_to(elsewhere)
    with pytest.raises(OSError):
        record_files(scratch, "m", "out", JOB)
    with pytest.raises(OSError):
        record_environment(scratch, "m", {}, JOB)
    assert not list(elsewhere.iterdir())


def test_lists_and_depth_have_a_limit(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"f{i:02}").touch()
    record_files(tmp_path, "m", "out", JOB, most=5)
    *names, last = (tmp_path / "m" / "out").read_text().splitlines()
    assert len(names) == 5 and last == "(more than 5 names: the others are left out)"
    fd = open_path(tmp_path, os.O_RDONLY)
    for _ in range(2 * MOST_LEVELS):  # deeper than a path may be long is no error either
        os.mkdir("d" * 200, dir_fd=fd)
        fd, above = os.open("d" * 200, os.O_RDONLY, dir_fd=fd), fd
        os.close(above)
    os.close(fd)
    record_files(tmp_path, "m", "out", JOB)
    deepest = max((tmp_path / "m" / "out").read_text().splitlines(), key=len)
    assert deepest.count("d" * 200) == MOST_LEVELS + 1


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other accounts reach."""
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@host.needs(host.root)
def test_only_what_the_job_may_read_is_looked_into(open_directory: Path) -> None:
    scratch = open_directory / "scratch"
    (scratch / "closed" / "below").mkdir(parents=True)
    (scratch / "closed").chmod(0o700)
    os.chown(scratch, 65534, 65534)
    record_files(scratch, "m", "out", Identity(uid=65534, gid=65534))
    assert (scratch / "m" / "out").read_text() == "./closed/\n./m/\n./m/out\n"
    assert (scratch / "m" / "out").stat().st_uid == 65534


def test_the_manifest_goes_back_beside_listed_outputs_and_once(tmp_path: Path) -> None:
    (tmp_path / "r").touch()
    record_files(tmp_path, "m", "in", JOB)
    for listed in ("", "r", "r, m"):
        job = view(ManifestDir="m", TransferOutput=listed)
        found = [output.name for output in choose(job, tmp_path, {}, JOB, streams_only=False)]
        assert sorted(found) == sorted({"m", "m/in", *(name for name in ("r",) if name in listed)}), listed
    (output,) = choose(view(TransferOutput="r"), tmp_path, {}, JOB, streams_only=False)
    assert output.name == "r"


def test_the_environment_is_spelled_as_htcondor_does_and_reads_back(tmp_path: Path) -> None:
    env = {"C": "a$$b", "B": "two words", "A": "1", "Q": "it's", "N": "x\ny"}
    record_environment(tmp_path, "m", env, JOB)
    text = (tmp_path / "m" / "environment").read_text()
    assert text.startswith("A=1 B=two' 'words C=a$$b ")
    assert dict(word.split("=", 1) for word in split_new(text.removesuffix("\n"))) == env
    assert split_new(join_new(["", "'", " ' "])) == ["", "'", " ' "]

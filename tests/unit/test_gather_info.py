"""What `gather-info` takes along of a job's event log, which the job's owner named."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.cli import gather_info


def _told(path: Path) -> str:
    return gather_info._event_log(ClassAd({"Iwd": str(path.parent), "UserLog": path.name}))


def test_an_event_log_is_taken_and_no_other_file(tmp_path: Path) -> None:
    log, other = tmp_path / "job.log", tmp_path / "secret"
    log.write_text("000 (1.0.0) 2026-11-22 13:01:24 Job submitted\n...\n")
    other.write_text("a secret")
    assert _told(log) == log.read_text()
    assert _told(other) == f"{other} is not an event log.\n"
    assert _told(tmp_path / "gone") == "Userlog file does not exist. See query file.\n"


def test_a_log_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _told(tmp_path / "pipe").startswith(f"cannot read {tmp_path}/pipe: not a regular file (")
    assert _told(tmp_path / ("x" * 300)).startswith(f"cannot read {tmp_path}/xxx")
    (tmp_path / "file").write_text("")
    assert _told(tmp_path / "file" / "log").startswith(f"cannot read {tmp_path}/file/log: Not a directory (")


def test_a_name_that_leads_elsewhere_after_the_look_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = tmp_path / "job.log", tmp_path / "secret"
    log.write_text("000 (1.0.0) 2026-11-22 13:01:24 Job submitted\n...\n")
    other.write_text("a secret")
    look = re.match

    def looked(pattern: bytes, text: bytes) -> re.Match[bytes] | None:
        log.unlink()
        log.symlink_to(other)
        return look(pattern, text)

    monkeypatch.setattr(re, "match", looked)
    assert "secret" not in _told(log)


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    assert gather_info._names_in(tmp_path / "gone") == f"cannot read {tmp_path}/gone: No such file or directory"

"""Files of past ads: banners, rotation, rights, and what is left of them after a crash."""

from __future__ import annotations

import calendar
import io
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.daemon import history_file
from slotwise.daemon.history_file import Record, Rotation

NOON = calendar.timegm((2026, 3, 15, 12, 0, 0))
UNBOUNDED = Rotation(0)


def record(number: int, note: str = "x") -> Record:
    text = f'ClusterId = {number}\nNote = "{note}"\n'
    return Record(text, f"ClusterId = {number} ProcId = 0", chained=True)


def numbers(*paths: Path) -> list[int]:
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return [int(line.split(" ClusterId = ")[1].split()[0]) for line in lines if line.startswith("*** ")]


def test_a_banner_begins_with_the_place_of_the_one_before(tmp_path: Path) -> None:
    """As HTCondor 25.14 writes them: 0 in the first, then where the former banner line begins."""
    path = tmp_path / "history"
    for pieces in ([1, 2], [3], [4, 5]):
        history_file.append(str(path), [record(number) for number in pieces], UNBOUNDED, NOON)
    data = path.read_bytes()
    places = [data.index(b"*** Offset = %d ClusterId = %d " % (0, 1))]
    for number in range(2, 6):
        places.append(data.index(b"*** Offset = %d ClusterId = %d " % (places[-1], number)))
    assert numbers(path) == [1, 2, 3, 4, 5]


@given(st.integers(100, 400), st.lists(st.integers(0, 120), max_size=20), st.integers(1, 4))
def test_rotation_keeps_the_newest_whole_records(most: int, notes: list[int], kept: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "history"
        records = [record(number, "n" * size) for number, size in enumerate(notes)]
        for start in range(0, len(records), 5):
            history_file.append(str(path), records[start : start + 5], Rotation(most, kept), NOON + start)
        parts = history_file.parts_of(path)
        assert len(parts) <= kept + 1
        found = numbers(*parts)
        assert found == list(range(len(notes)))[len(notes) - len(found) :]
        for part in parts:
            assert part.stat().st_size <= most or len(numbers(part)) == 1
            assert part.read_text().count("*** Offset = 0 ") == 1, "each file begins a chain"


@pytest.mark.parametrize(
    ("rotation", "hours", "is_due"),
    [
        (Rotation(0, daily=True), 1, False),
        (Rotation(0, daily=True), 24, True),
        (Rotation(0, daily=True), 24 * 365, True),
        (Rotation(0, monthly=True), 24, False),
        (Rotation(0, monthly=True), 24 * 31, True),
        (Rotation(0), 24 * 1000, False),
        (Rotation(0, daily=True), -48, False),
    ],
)
def test_a_file_of_another_day_or_month_is_put_aside(rotation: Rotation, hours: int, is_due: bool) -> None:
    assert rotation.is_due(1, NOON, 1, NOON + hours * 3600) is is_due
    assert not rotation.is_due(0, NOON, 1, NOON + hours * 3600), "an empty one never"


def test_other_users_read_it_only_when_the_administrator_says_so(tmp_path: Path) -> None:
    path = tmp_path / "history"
    former = os.umask(0)
    try:
        history_file.append(str(path), [record(1)], Rotation(60), NOON)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        for number in range(2, 6):
            history_file.append(str(path), [record(number)], Rotation(60), NOON + number)
            assert path.stat().st_mode & 0o777 == 0o640
        assert len(history_file.parts_of(path)) == 3
    finally:
        os.umask(former)


def test_other_files_beside_it_are_left_alone(tmp_path: Path) -> None:
    others = ["history.2026", "history.20260101T000000.gz", "history.20260101T000000.notes", "history.bak", "history2"]
    for name in others:
        (tmp_path / name).write_text("mine")
    for number in range(9):
        history_file.append(str(tmp_path / "history"), [record(number)], Rotation(60, 1), NOON + number)
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    assert len(list(tmp_path.iterdir())) == len(others) + 2


def test_what_a_crash_cut_is_taken_out(tmp_path: Path) -> None:
    """Wherever the file ends: the whole records stay, and the last one of them is told."""
    path = tmp_path / "history"
    history_file.append(str(path), [record(number, "y" * number) for number in range(1, 4)], UNBOUNDED, NOON)
    whole = path.read_bytes()
    ends = [whole.index(b"\n", whole.index(b"*** Offset", start)) + 1 for start in _starts(whole)]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        last = history_file.repair(str(path))
        kept = [end for end in ends if end <= length]
        assert path.read_bytes() == whole[: kept[-1] if kept else 0], length
        assert last == (whole[[0, *ends][len(kept) - 1] : kept[-1]].decode() if kept else "")


def _starts(whole: bytes) -> list[int]:
    return [at for at in range(len(whole)) if whole.startswith(b"ClusterId = ", at) and (not at or whole[at - 1] == 10)]


def test_records_larger_than_what_is_read_at_once_are_found(tmp_path: Path) -> None:
    path = tmp_path / "history"
    large = [record(number, "z" * 300_000) for number in range(3)]
    history_file.append(str(path), large, UNBOUNDED, NOON)
    size = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(b'ClusterId = 9\nNote = "' + b"q" * 200_000)
    assert history_file.repair(str(path)).startswith("ClusterId = 2\n")
    assert path.stat().st_size == size
    history_file.append(str(path), [record(4)], UNBOUNDED, NOON)
    former = int(path.read_text().rsplit("Offset = ", 1)[1].split()[0])
    assert path.read_bytes()[former:].startswith(b"*** Offset = ") and former < size


def test_the_newest_old_file_speaks_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "history"
    for number in range(1, 4):
        history_file.append(str(path), [record(number)], Rotation(60, 5), NOON + number)
    path.unlink()
    assert history_file.repair(str(path)).startswith("ClusterId = 2\n")
    assert history_file.repair(str(tmp_path / "none")) == ""


def test_a_file_that_is_no_history_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.write_text("root:x:0:0\n")
    assert history_file.repair(str(path)) == ""
    assert path.read_text() == "root:x:0:0\n"


def test_what_a_full_disk_takes_half_of_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    history_file.append(str(path), [record(1)], UNBOUNDED, NOON)
    whole, write = path.read_bytes(), os.write
    room = [10]

    def full(descriptor: int, data: bytes) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[: room.pop()])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        history_file.append(str(path), [record(2)], UNBOUNDED, NOON)
    assert path.read_bytes() == whole


def test_a_file_for_a_job_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "history.1.0").symlink_to(target)
    former = os.umask(0)
    try:
        history_file.write_per_job(str(tmp_path), "history.1.0", "ClusterId = 1\n")
        assert (tmp_path / "history.1.0").stat().st_mode & 0o777 == 0o600
        tmp_path.chmod(0o2750)
        history_file.write_per_job(str(tmp_path), "history.1.0", "ClusterId = 2\n")
        assert (tmp_path / "history.1.0").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(former)
    assert (tmp_path / "history.1.0").read_text() == "ClusterId = 2\n"
    assert target.read_text() == "mine"
    with pytest.raises(OSError):
        history_file.write_per_job(str(tmp_path / "none"), "history.1.0", "")


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-13")  # noon in Greenwich is one in the morning of the next day here
    time.tzset()
    try:
        assert Rotation(0, daily=True).is_due(1, NOON - 2 * 3600, 1, NOON)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_put_aside_is_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    history_file.append(str(path), [record(1)], UNBOUNDED, NOON)
    done: list[tuple[str, bool]] = []
    monkeypatch.setattr(history_file, "synchronise", lambda place: done.append((place, path.exists())))
    history_file.append(str(path), [record(2)], Rotation(1), NOON)
    assert done == [(str(path), True), (str(tmp_path), False)]


def test_the_table_of_a_daemons_history_is_htcondors(tmp_path: Path) -> None:
    """As ``condor_history -daemon`` of 25.14.1 prints these records, but for blanks at the ends of lines."""
    (tmp_path / "written").write_text(
        "RecordWriteDate = 1795934774\nRecentDaemonCoreDutyCycle = 0.25\nTotalRunningJobs = 3\nTotalIdleJobs = 4\n"
        "TotalHeldJobs = 5\nTransferQueueNumDownloading = 1\nFileTransferMBWaitingToDownload = 1.5\n"
        "*** SCHEDD RecordWriteDate=1795934774\n"
        "RecordWriteDate = 1795934799\nTotalRunningJobs = 3\n*** SCHEDD RecordWriteDate=1795934799\n"
    )
    config = f"SCHEDD_DAEMON_HISTORY = {tmp_path}/written\nKITCHEN_DAEMON_HISTORY = {tmp_path}/written\n"
    (tmp_path / "config").write_text(config)
    env = {"SLOTWISE_HOME": str(tmp_path / "home"), "CONDOR_CONFIG": str(tmp_path / "config")}

    def call(*words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        status = dispatch(["condor_history", *words], Invocation(tmp_path, env, io.StringIO(), out, err))
        return status, out.getvalue(), err.getvalue()

    day = time.strftime("%m/%d %H:%M", time.localtime(1795934774)).removeprefix("0")
    head = (
        "TIMESTAMP   DUTY_CYCLE RunningJobs   IdleJobs   HeldJobs Download Waiting WaitingMB"
        "   Upload Waiting WaitingMB\n"
    )
    newest = f"{day:<11}      0.00%           3\n"
    shown = f"{head}{newest}{day:<11}     25.00%           3          4          5        1              1.50\n"
    for words in (("-daemon",), ("-daemon:schedd",), ("-daemon:kitchen",)):
        assert call(*words) == (0, shown, "")
    assert call("-daemon:SCHEDD", "-limit", "1")[1] == head + newest
    status, out, err = call("-daemon:foo")
    assert status == 1 and not out and "No daemon history to read: FOO_DAEMON_HISTORY undefined" in err

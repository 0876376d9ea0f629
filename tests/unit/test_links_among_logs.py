"""LOG may be another account's than those who read in it: what that account lays there shows them no other file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.cli import gather_info
from slotwise.home import PoolHome
from slotwise.master import obituaries, startup, supervisor
from slotwise.observe.log import open_log

SECRET = "** STARTING UP\nmaster cannot run: root:$6$secret\n"


def _tail(path: Path) -> str:
    return "\n".join(startup.log_tail(PoolHome(path.parents[1]), "master"))


def _last_words(path: Path) -> str:
    return supervisor.last_words(PoolHome(path.parents[1]), "master")


def _obituary(path: Path) -> str:
    return "\n".join(obituaries._last_lines(path, 20))


READERS = [_tail, _last_words, _obituary, gather_info._end_of_log]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    (tmp_path / "shadow").write_text(SECRET)
    return tmp_path / "log" / "MasterLog"


@pytest.mark.parametrize("read", READERS)
def test_a_log_is_read(log: Path, read: Callable[[Path], str]) -> None:
    log.write_text(SECRET)
    assert "$6$secret" in read(log)


@pytest.mark.parametrize("lay", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("read", READERS)
def test_a_link_to_another_file_is_not(
    log: Path, read: Callable[[Path], str], lay: Callable[[Path, Path], None]
) -> None:
    lay(log, log.parents[1] / "shadow")
    assert "secret" not in read(log)


@pytest.mark.parametrize("read", READERS)
def test_a_pipe_is_not_waited_for(log: Path, read: Callable[[Path], str]) -> None:
    os.mkfifo(log)
    assert "secret" not in read(log)


def test_a_link_in_place_of_standard_error_is_named(log: Path) -> None:
    out = log.with_name("master.out")
    out.symlink_to(log.parents[1] / "shadow")
    assert _tail(log) == f"{out} is a link, which daemons do not follow: remove it"


def test_what_is_no_log_is_said(log: Path) -> None:
    log.hardlink_to(log.parents[1] / "shadow")
    with pytest.raises(OSError, match="it has another name elsewhere"):
        open_log(log)
    with pytest.raises(OSError, match="it is not a plain file"):
        open_log(log.parent)

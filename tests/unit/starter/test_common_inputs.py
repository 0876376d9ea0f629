"""Common input files at a host: who is sent a set, and how it is put into a job's directory."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.transfer import common_store
from slotwise.starter.transfer.sharing import Left, Sharing, Turn


def _ask(sharing: Sharing, key: str, run: str, size: int = 0) -> Turn:
    turn = sharing.ask(key, run, size, 1000)
    assert turn is not None
    return turn


def test_sets_take_half_of_the_room_at_most_and_waiting_for_one_takes_none() -> None:
    sharing = Sharing()
    assert _ask(sharing, "a", "1", 300) is Turn.SEND
    assert sharing.ask("b", "2", 300, 1000) is None, "600 of 1000, while nothing has come"
    assert _ask(sharing, "b", "2", 200) is Turn.SEND
    assert sharing.ask("a", "3", 300, 400) is Turn.WAIT, "it is coming"
    sharing.arrived("a", "1")
    sharing.arrived("b", "2")
    assert sharing.ask("c", "4", 1, 500) is None and sharing.ask("c", "4", 1, 502) is Turn.SEND
    assert sharing.ask("d", "5", -1, 1000) is None


def test_one_is_sent_a_set_and_the_others_have_it_then() -> None:
    sharing = Sharing()
    assert [_ask(sharing, "set", run) for run in "abc"] == [Turn.SEND, Turn.WAIT, Turn.WAIT]
    assert _ask(sharing, "other", "d") is Turn.SEND
    assert sharing.arrived("set", "a") == ["b", "c"]
    assert _ask(sharing, "set", "e") is Turn.PLACE
    assert [sharing.leave("set", run) for run in "abc"] == [Left()] * 3
    assert not sharing.drop("set") and sharing.leave("set", "e") == Left(idle=True)
    assert sharing.idle() == ["set"] and sharing.drop("set") and _ask(sharing, "set", "f") is Turn.SEND


def test_the_next_is_sent_what_failed_for_the_first() -> None:
    sharing = Sharing()
    for run in "abc":
        _ask(sharing, "set", run)
    assert sharing.leave("set", "b") == Left()
    assert sharing.leave("set", "a") == Left(next="c")
    assert sharing.arrived("set", "a") == [] and sharing.arrived("set", "c") == []
    assert _ask(sharing, "set", "d") is Turn.PLACE


@given(st.lists(st.tuples(st.sampled_from(["ask", "arrived", "leave"]), st.sampled_from("abcd")), max_size=40))
def test_no_two_are_sent_a_set_at_once_and_nobody_waits_for_nobody(steps: list[tuple[str, str]]) -> None:
    sharing, doing = Sharing(), dict[str, str]()
    for step, run in steps:
        if step == "ask" and run not in doing:
            doing[run] = _ask(sharing, "set", run).value
        elif step == "arrived" and doing.get(run) == "send":
            doing[run] = "place"
            doing |= dict.fromkeys(sharing.arrived("set", run), "place")
        elif step == "leave" and run in doing:
            del doing[run]
            if (following := sharing.leave("set", run).next) != "":
                assert doing[following] == "wait"
                doing[following] = "send"
        counts = Counter(doing.values())
        assert counts["send"] <= 1 and (not counts["wait"] or counts["send"] == 1)
        assert not (counts["send"] and counts["place"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A set as it was received."""
    return received(tmp_path)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that other accounts reach."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def received(execute: Path) -> Path:
    """A set as it was received below ``execute``."""
    place = common_store.make(execute, "set")
    (place / "d" / "e").mkdir(parents=True)
    for name, mode in (("big", 0o644), ("run", 0o755), ("d/e/secret", 0o600)):
        (place / name).write_text(name)
        (place / name).chmod(mode)
    return place


def test_copies_are_the_jobs_own(source: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "big").write_text("of a former attempt")
    common_store.place(source, scratch, Identity(), linked=False)
    assert [(scratch / name).read_text() for name in ("big", "run", "d/e/secret")] == ["big", "run", "d/e/secret"]
    (scratch / "big").write_text("changed")
    assert (source / "big").read_text() == "big"
    assert [(scratch / name).stat().st_mode & 0o777 for name in ("big", "run", "d/e/secret")] == [0o644, 0o755, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to be another account")
def test_links_are_for_reading_and_what_is_private_is_copied(reachable: Path) -> None:
    source, scratch = received(reachable), reachable / "scratch"
    scratch.mkdir()
    os.chown(scratch, 65534, 65534)
    job = Identity(uid=65534, gid=65534)
    assert common_store.may_link(job) and not common_store.may_link(Identity(uid=0, gid=0))
    common_store.place(source, scratch, job, linked=True)
    big, run, secret = ((scratch / name).stat() for name in ("big", "run", "d/e/secret"))
    assert (big.st_uid, big.st_mode & 0o777, big.st_nlink) == (0, 0o444, 2)
    assert (run.st_mode & 0o777, run.st_nlink) == (0o555, 2)
    assert (secret.st_uid, secret.st_mode & 0o777, secret.st_nlink) == (65534, 0o600, 1)


def test_no_link_in_the_way_is_followed(source: Path, tmp_path: Path) -> None:
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir()
    (scratch / "big").symlink_to(elsewhere / "big")
    common_store.place(source, scratch, Identity(), linked=False)
    assert not (scratch / "big").is_symlink() and not list(elsewhere.iterdir())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "d").symlink_to(elsewhere)
    with pytest.raises(OSError, match="d"):
        common_store.place(source, tmp_path / "other", Identity(), linked=False)
    assert not list(elsewhere.iterdir())


def test_nobody_else_can_have_made_the_directory(tmp_path: Path) -> None:
    (tmp_path / common_store.NAME).mkdir(mode=0o755)
    (tmp_path / common_store.NAME).chmod(0o755)
    with pytest.raises(OSError, match="alone"):
        common_store.make(tmp_path, "set")
    assert common_store.empty(tmp_path) == [] and common_store.make(tmp_path, "set").is_dir()

"""Files that commands leave where others may write, too: nothing is written through somebody else's link."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.common import written_file

from tests.support.waiting import LIMIT_S


def _picture(path: Path) -> None:
    pytest.importorskip("matplotlib")
    from slotwise.cli.render import picture

    picture.save(picture.figure(1, 1), path)


def _parquet(path: Path) -> None:
    pytest.importorskip("polars")
    from slotwise.cli.render import parquet

    assert parquet.write([ClassAd({"QDate": 1})], (), path) == 1


def _text(path: Path) -> None:
    written_file.write(path, "ü\n")


@pytest.mark.parametrize(
    ("name", "write"), [("report.png", _picture), ("report.svg", _picture), ("jobs", _parquet), ("list", _text)]
)
def test_a_link_is_replaced_and_not_followed(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for target in (victim, tmp_path / "nowhere"):
        link = tmp_path / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write(link)
        assert not link.is_symlink() and link.stat().st_size
    assert victim.read_text() == "precious" and not (tmp_path / "nowhere").exists()
    assert {one.name for one in tmp_path.iterdir()} == {"victim", name}


def test_what_breaks_off_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("former")
    with pytest.raises(RuntimeError), written_file.replaced(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_text() == "former" and list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    written_file.write(pipe, "through")
    reader.join(LIMIT_S)
    assert got == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)

"""Files that come back from an access point, where it may name them as it likes."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.client.spool import Arrivals
from slotwise.errors import SubmitError
from slotwise.wire.gen import schedd_pb2


def _take(root: Path, name: bytes, **ad: object) -> Path:
    piece = schedd_pb2.FilePiece(name=name, mode=0o644, data=b"text", last=True)
    return Arrivals(ClassAd(ad), root).take(piece)


@pytest.mark.parametrize("name", [b".", b"", b"./", b"sub/..", b"..", b"../x", b"/etc/x", b"mapped"])
def test_a_file_is_written_below_the_directory_alone(tmp_path: Path, name: bytes) -> None:
    root = tmp_path / "1.0"
    root.mkdir()
    with pytest.raises(SubmitError, match="has no place below"):
        _take(root, name, SUBMIT_TransferOutputRemaps="mapped=sub/..")
    assert list(tmp_path.iterdir()) == [root] and not list(root.iterdir())


def test_a_file_with_a_name_arrives(tmp_path: Path) -> None:
    assert _take(tmp_path, b"sub/out").read_bytes() == b"text"
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["out"]

"""`slotwise power`: the packet goes where the ad or the options say."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.pool import power
from slotwise.errors import SlotwiseError, UsageError

from tests.support.waiting import LIMIT_S

CARD = "02:00:00:00:00:7f"
PACKET = b"\xff" * 6 + bytes.fromhex(CARD.replace(":", "")) * 16


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.settimeout(LIMIT_S)
        yield opened


def run(tmp_path: Path, *args: str, stdin: str = "") -> str:
    err = io.StringIO()
    inv = Invocation(tmp_path, {}, io.StringIO(stdin), io.StringIO(), err)
    assert power.main(list(args), inv) == 0
    return err.getvalue()


@pytest.mark.parametrize("how", ["-i", "", "file"])
def test_a_machine_by_its_ad(tmp_path: Path, listener: socket.socket, how: str) -> None:
    ad = f"""Name = "slot1@node7"
MyAddress = "127.0.0.1:9618"
HardwareAddress = "{CARD}"
SubnetMask = "255.255.255.255"
WakePort = {listener.getsockname()[1]}
"""
    (tmp_path / "node7.ad").write_text(ad)
    args = ["-i", "node7.ad"] if how == "file" else [how] if how else []
    assert run(tmp_path, *args, stdin="" if how == "file" else ad) == "Packet sent.\n"
    assert listener.recv(2000) == PACKET


def test_what_is_no_card_no_mask_no_port_and_no_ad_is_said(tmp_path: Path) -> None:
    for args in (
        ["-m", "02:00"],
        ["-m", CARD, "-s", "255.0"],
        ["-m", CARD, "-p", "x"],
        ["-m", CARD, "-p", "99999"],
        ["-i"],
    ):
        with pytest.raises(UsageError):
            run(tmp_path, *args)
    with pytest.raises(SlotwiseError, match="HardwareAddress"):
        run(tmp_path, "-i", stdin='Name = "slot1@node7"\n')

"""Input that X servers saw: against Xvfb where it is installed, and against servers that misbehave."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.startd.fingerprint import idle, x_input
from slotwise.startd.fingerprint.x_input import Connection, XProbe, entries
from slotwise.wire import socket_path

from tests.support.waiting import LIMIT_S, block_until
from tests.support.xvfb import COOKIE, authority, running_xvfb


@pytest.fixture
def xvfb(tmp_path: Path) -> Iterator[str]:
    """The number of a display that wants a cookie."""
    with running_xvfb(tmp_path / "cookies") as number:
        yield number


def linked(root: Path, number: str) -> Path:
    """A root directory whose only X server is display ``number`` of this host."""
    (root / "tmp/.X11-unix").mkdir(parents=True)
    (root / f"tmp/.X11-unix/X{number}").symlink_to(f"/tmp/.X11-unix/X{number}")
    return root


def press(number: str) -> None:
    """Press and release a key by XTEST."""
    with Connection(Path(f"/tmp/.X11-unix/X{number}"), COOKIE) as x:
        opcode = x.extension(b"XTEST")
        for kind in (2, 3):
            x._socket.sendall(struct.pack("<BBHBBxxIIxxxxxxxxhhxxxxxxxB", opcode, 2, 9, kind, 38, 0, x.root, 0, 0, 0))
        x.extension(b"XTEST")  # an answer: what was sent before has been handled


def test_keys_at_an_x_server_are_seen(xvfb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x_input, "_PATIENCE_S", LIMIT_S)
    probe = XProbe({"XAUTHORITY": str(tmp_path / "cookies")}, linked(tmp_path / "root", xvfb))

    def last() -> float:
        found = probe.last_input(time.time())
        assert found is not None and found <= time.time()
        return found

    press(xvfb)
    first = last()
    block_until(lambda: time.time() - last() > 0.5)
    pressed = time.time()
    press(xvfb)
    # An answer that is late makes the input earlier by as much.
    again: float = block_until(lambda: found if (found := last()) > pressed - 0.1 else 0.0, "the second key is seen")
    assert again > first
    (tmp_path / "root/dev").mkdir()
    found = idle.read(again + 7.5, 0, root=tmp_path / "root", x_input=again)
    assert found == {"KeyboardIdle": 7, "ConsoleIdle": 7}


def test_without_the_cookie_there_is_no_fact(xvfb: str, tmp_path: Path) -> None:
    root = linked(tmp_path / "root", xvfb)
    wrong = tmp_path / "wrong"
    wrong.write_bytes(authority(xvfb, bytes(16)))
    assert XProbe({"XAUTHORITY": str(wrong)}, root).last_input(time.time()) is None


def test_no_x_no_fact(tmp_path: Path) -> None:
    assert XProbe({}, tmp_path).last_input(1000) is None


def test_entries_of_an_authority_file() -> None:
    data = authority("0") + authority("12", b"x")
    assert [(number, cookie) for number, _, cookie in entries(data)] == [(b"0", COOKIE), (b"12", b"x")]
    for cut in range(len(data)):
        assert len([*entries(data[:cut])]) <= 1


def serve(path: Path, answer: bytes | None) -> list[int]:
    """A server at ``path`` that sends ``answer`` to everybody and hangs up, or says nothing; counts its callers."""
    path.parent.mkdir(parents=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(socket_path.usable(path))
    listening.listen()
    callers: list[int] = []
    kept = []

    def accept() -> None:
        while True:
            caller, _ = listening.accept()
            callers.append(1)
            if answer is None:
                kept.append(caller)
                continue
            with caller:
                caller.recv(4096)
                caller.sendall(answer)

    threading.Thread(target=accept, daemon=True).start()
    return callers


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x01\0\x0b\0\0\0\0\0",
        b"\x01\0\x0b\0\0\0\x02\0" + bytes(8),
        b"\x01\0\x0b\0\0\0\x0a\0" + bytes(16) + b"\xff\xff" + bytes(22),
    ],
)
def test_a_server_that_is_none_gives_no_fact_and_is_left_alone_for_a_while(
    tmp_path: Path, answer: bytes | None
) -> None:
    callers = serve(tmp_path / "tmp/.X11-unix/X0", answer)
    probe = XProbe({}, tmp_path)
    assert probe.last_input(1000) is None
    block_until(lambda: len(callers) == 1)
    assert probe.last_input(1030) is None and len(callers) == 1
    assert probe.last_input(1061) is None
    block_until(lambda: len(callers) == 2)

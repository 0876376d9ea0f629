"""Forwarded X connections: their messages, whose connections pass, and both ends against each other."""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.cli.jobs.x11 import channels, frames, relay
from slotwise.cli.jobs.x11.channels import MOST, Channels, RefusedError
from slotwise.cli.jobs.x11.frames import Frame, FrameError, Reader, packed
from slotwise.cli.jobs.x11.setup import Display, Setup, cookie_listed, display_named
from slotwise.errors import UsageError

from tests.support.waiting import LIMIT_S, block_until

SHOWN, REAL = bytes(range(16)), bytes(range(16, 32))
FRAMES = st.one_of(
    st.builds(
        Frame,
        st.sampled_from([frames.HELLO, frames.READY, frames.OPEN, frames.DATA, frames.CLOSE]),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=50),
    ),
    st.builds(Frame, st.just(frames.TAKEN), st.integers(0, 2**32 - 1), st.binary(min_size=4, max_size=4)),
)


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


@given(st.lists(FRAMES, max_size=20), st.lists(st.integers(0, 40), max_size=40))
def test_messages_are_the_same_however_their_bytes_are_cut(sent: list[Frame], sizes: list[int]) -> None:
    reader = Reader()
    pieces = cut(b"".join(packed(frame) for frame in sent), sizes)
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


@pytest.mark.parametrize(
    ("kind", "size"), [(0, 0), (7, 0), (255, 1), (frames.DATA, frames.PIECE + 1), (frames.TAKEN, 3)]
)
def test_what_is_no_message_is_refused_before_its_content_is_waited_for(kind: int, size: int) -> None:
    with pytest.raises(FrameError):
        Reader().feed(struct.pack(">BII", kind, 1, size))


def setup(order: str, cookie: bytes, name: bytes = b"MIT-MAGIC-COOKIE-1") -> bytes:
    head = (b"B" if order == ">" else b"l") + b"\0" + struct.pack(order + "HHHHH", 11, 0, len(name), len(cookie), 0)
    return head + name + b"\0" * (-len(name) % 4) + cookie + b"\0" * (-len(cookie) % 4)


@given(st.sampled_from("<>"), st.sampled_from([REAL, b""]), st.lists(st.integers(0, 20), max_size=20), st.binary())
def test_the_real_cookie_takes_the_place_of_the_one_of_the_session(
    order: str, real: bytes, sizes: list[int], rest: bytes
) -> None:
    screen = Setup(SHOWN, real)
    passed = b"".join(screen(piece) for piece in cut(setup(order, SHOWN) + rest, sizes))
    assert passed == setup(order, real, b"MIT-MAGIC-COOKIE-1" if real else b"") + rest


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("cookie", "name"), [(REAL, b"MIT-MAGIC-COOKIE-1"), (b"", b""), (SHOWN[:15], b"MIT-MAGIC-COOKIE-1"), (SHOWN, b"X")]
)
def test_another_cookie_is_refused_with_the_answer_of_a_server(order: str, cookie: bytes, name: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        Setup(SHOWN, REAL)(setup(order, cookie, name))
    failed, size, major, minor, words = struct.unpack_from(order + "BBHHH", refused.value.reply)
    assert (failed, major, minor, 8 + 4 * words) == (0, 11, 0, len(refused.value.reply))
    assert refused.value.reply[8 : 8 + size] == b"slotwise: not the cookie of this session"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.0\r\n", b"l\0" + struct.pack("<HHHHH", 11, 0, 60000, 60000, 0)])
def test_what_is_not_x11_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedError):
        Setup(SHOWN, REAL)(data)


@pytest.mark.parametrize(
    ("text", "display"),
    [
        (":0", Display(path="/tmp/.X11-unix/X0")),
        ("unix:3.1", Display(path="/tmp/.X11-unix/X3", screen=1)),
        ("localhost:10.0", Display(host="localhost", port=6010)),
        ("[::1]:2", Display(host="::1", port=6002)),
        ("/run/x/socket", Display(path="/run/x/socket")),
    ],
)
def test_names_of_displays(text: str, display: Display) -> None:
    assert display_named(text) == display


@pytest.mark.parametrize("text", ["", "here", ":", ":99999", "host:1.x"])
def test_what_names_no_display(text: str) -> None:
    with pytest.raises(UsageError, match="DISPLAY"):
        display_named(text)


@pytest.mark.parametrize("module", [frames, channels, relay])
def test_what_runs_beside_the_job_is_read_by_the_oldest_python_that_is_taken(module: ModuleType) -> None:
    ast.parse(inspect.getsource(module), feature_version=(3, 7))


def test_the_cookie_among_those_that_xauth_lists() -> None:
    other = "host/unix:0  XDM-AUTHORIZATION-1  00ff\n"
    assert cookie_listed(f"{other}host/unix:0  MIT-MAGIC-COOKIE-1  {REAL.hex()}\n") == REAL
    assert cookie_listed(other) == cookie_listed("") == b""


@contextlib.contextmanager
def two_ends(connect: Callable[[], tuple[socket.socket, Callable[[bytes], bytes]]]) -> Iterator[tuple[str, int]]:
    """Where connections are taken that come out of ``connect``."""
    (far_in, near_out), (near_in, far_out) = os.pipe(), os.pipe()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.setblocking(False)
        ends = [Channels(far_in, far_out), Channels(near_in, near_out, connect=connect)]
        ends[0].accept_from(listener)
        threads = [threading.Thread(target=end.run) for end in ends]
        for thread in threads:
            thread.start()
        try:
            yield listener.getsockname()
        finally:
            # The near end hears the end of what it reads, as when the visit is over; then the far end does.
            spare = os.open(os.devnull, os.O_WRONLY)
            os.dup2(spare, far_out)
            threads[1].join(LIMIT_S)
            os.dup2(spare, near_out)
            threads[0].join(LIMIT_S)
            for fd in (far_in, near_out, near_in, far_out, spare):
                os.close(fd)
            assert not any(thread.is_alive() for thread in threads)


def test_a_connection_that_is_not_read_holds_up_no_other() -> None:
    held: list[socket.socket] = []

    def connect() -> tuple[socket.socket, Callable[[bytes], bytes]]:
        ours, theirs = socket.socketpair()
        held.append(theirs)
        return ours, lambda data: data

    with two_ends(connect) as place, socket.create_connection(place) as slow, socket.create_connection(place) as quick:
        slow.send(b"s")
        quick.sendall(b"q")
        for end in (slow, quick):
            end.settimeout(LIMIT_S)
        block_until(lambda: len(held) >= 2)
        first = {end.recv(1): end for end in held}
        # More than all buffers hold: the sender is slowed down, and the other connection goes on.
        sender = threading.Thread(target=slow.sendall, args=(b"x" * 8 * frames.WINDOW,))
        sender.start()
        quick.sendall(b"question")
        assert first[b"q"].recv(100) == b"question"
        first[b"q"].sendall(b"answer")
        assert quick.recv(100) == b"answer"
        received = 0
        while received < 8 * frames.WINDOW:
            received += len(first[b"s"].recv(65536))
        sender.join(LIMIT_S)
        assert received == 8 * frames.WINDOW
        slow.close()
        assert first[b"s"].recv(1) == b""
        first[b"q"].close()
        assert quick.recv(1) == b""
    for end in held:
        end.close()


def test_connections_that_show_no_cookie_make_way_for_others() -> None:
    server = socket.create_server(("127.0.0.1", 0), backlog=64)

    def connect() -> tuple[socket.socket, Callable[[bytes], bytes]]:
        return socket.create_connection(server.getsockname()), Setup(SHOWN, REAL)

    with server, two_ends(connect) as place, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(place)) for _ in range(MOST)]
        with socket.create_connection(place) as late:
            idle[0].settimeout(LIMIT_S)
            assert idle[0].recv(1) == b""
            late.settimeout(LIMIT_S)
            late.sendall(setup("<", REAL))
            assert b"not the cookie of this session" in late.recv(1000)

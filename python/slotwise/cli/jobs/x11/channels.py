"""One end of forwarded connections: sockets on one side, two descriptors with their messages on the other.

An end that is slow slows the sender of that one connection down, not the others.
"""

from __future__ import annotations

import functools
import os
import select
import socket
import struct
from typing import Callable  # noqa: UP035 - that of collections.abc takes no brackets before Python 3.9

from slotwise.cli.jobs.x11.frames import CLOSE, DATA, OPEN, PIECE, TAKEN, WINDOW, Frame, Reader, packed

#: Connections at a time.
MOST = 32
#: Bytes on their way to the other end at which sockets are not read, and at which it is not listened to, either; only
#: an end that breaks the rules gets to the second.
_ENOUGH, _TOO_MUCH = 256 * 1024, 4 * 1024 * 1024
#: What looks at the first bytes of a connection: takes bytes, gives those that may pass.
Screen = Callable[[bytes], bytes]


class RefusedError(Exception):
    """A connection that must not be made; ``reply`` is what its maker is told."""

    def __init__(self, reply: bytes) -> None:
        super().__init__("refused")
        self.reply = reply


class _Channel:
    def __init__(self, connection: socket.socket, screen: Screen) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.screen = screen
        self.unsent = bytearray()
        self.room = WINDOW
        self.used = 0
        self.ending = False
        self.answered = False


class Channels:
    """All connections of one end.

    :param connect: makes the socket of a connection that the other end opens, and its screen.
    :param control: told all messages that are not about a connection.
    """

    def __init__(
        self,
        incoming: int,
        outgoing: int,
        connect: Callable[[], tuple[socket.socket, Screen]] | None = None,
        control: Callable[[Frame], None] = lambda frame: None,
    ) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._connect, self._control = connect, control
        self._listener: socket.socket | None = None
        self._reader = Reader()
        self._out = bytearray()
        self._channels: dict[int, _Channel] = {}
        self._last = 0
        self._ended = False
        for fd in (incoming, outgoing):
            os.set_blocking(fd, False)

    def say(self, frame: Frame) -> None:
        """Send a message to the other end. Only before `run`, or from what it calls."""
        self._out += packed(frame)

    def accept_from(self, listener: socket.socket) -> None:
        """Make connections of its callers, from now on. Only before `run`, or from what it calls."""
        self._listener = listener

    def run(self) -> None:
        """Carry, until the other end is gone.

        :raises FrameError: when it talks nonsense.
        """
        try:
            while not self._ended:
                self._turn()
        finally:
            for number in list(self._channels):
                self._drop(number)

    def _turn(self) -> None:
        poll, actions = select.poll(), {}

        def watch(fd: int, mask: int, action: Callable[[int], None]) -> None:
            poll.register(fd, mask)
            actions[fd] = action

        if len(self._out) < _TOO_MUCH:
            watch(self._incoming, select.POLLIN, lambda events: self._listen())
        if self._out:
            watch(self._outgoing, select.POLLOUT, lambda events: self._speak())
        reads = len(self._out) < _ENOUGH
        if self._listener is not None and reads:
            watch(self._listener.fileno(), select.POLLIN, lambda events: self._accept())
        for number, channel in self._channels.items():
            mask = select.POLLIN if reads and channel.room > 0 and not channel.ending else 0
            mask |= select.POLLOUT if channel.unsent else 0
            if mask:
                watch(channel.socket.fileno(), mask, functools.partial(self._move, number))
        for fd, events in poll.poll():
            actions[fd](events)

    def _listen(self) -> None:
        try:
            data = os.read(self._incoming, 2 * PIECE)
        except BlockingIOError:
            return
        self._ended = self._ended or not data
        for frame in self._reader.feed(data):
            self._hear(frame)

    def _speak(self) -> None:
        try:
            del self._out[: os.write(self._outgoing, self._out[:PIECE])]
        except BlockingIOError:
            return
        except OSError:
            self._ended = True

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection = self._listener.accept()[0]
        except OSError:
            return
        if len(self._channels) >= MOST:
            # Others on the host may hold connections open that show no cookie: those make way.
            idle = next((number for number, channel in self._channels.items() if not channel.answered), None)
            if idle is None:
                connection.close()
                return
            self._end(idle)
        self._last += 1
        self._channels[self._last] = _Channel(connection, lambda data: data)
        self.say(Frame(OPEN, self._last))

    def _hear(self, frame: Frame) -> None:
        channel = self._channels.get(frame.channel)
        if frame.kind == OPEN:
            self._open(frame.channel)
        elif frame.kind not in (DATA, TAKEN, CLOSE):
            self._control(frame)
        elif channel is None:
            return  # it ended here while this was on its way
        elif frame.kind == DATA:
            self._receive(frame.channel, channel, frame.payload)
        elif frame.kind == TAKEN:
            channel.room = min(WINDOW, channel.room + struct.unpack(">I", frame.payload)[0])
        else:
            channel.ending = True
            if not channel.unsent:
                self._drop(frame.channel)

    def _open(self, number: int) -> None:
        if self._connect is None or number in self._channels or len(self._channels) >= MOST:
            self.say(Frame(CLOSE, number))
            return
        try:
            self._channels[number] = _Channel(*self._connect())
        except OSError:
            self.say(Frame(CLOSE, number))

    def _receive(self, number: int, channel: _Channel, data: bytes) -> None:
        channel.answered = True
        if channel.ending:
            return
        try:
            channel.unsent += channel.screen(data)
        except RefusedError as refused:
            self.say(Frame(DATA, number, refused.reply))
            self._end(number)
            return
        if len(channel.unsent) > WINDOW:
            self._end(number)

    def _move(self, number: int, events: int) -> None:
        channel = self._channels.get(number)
        if channel is None:
            return
        try:
            if channel.unsent:
                self._pass_on(number, channel)
            if number in self._channels and events & ~select.POLLOUT and channel.room > 0 and not channel.ending:
                data = channel.socket.recv(min(PIECE, channel.room))
                if not data:
                    self._end(number)
                    return
                channel.room -= len(data)
                self.say(Frame(DATA, number, data))
        except BlockingIOError:
            return
        except OSError:
            self._end(number)

    def _pass_on(self, number: int, channel: _Channel) -> None:
        try:
            count = channel.socket.send(channel.unsent)
        except BlockingIOError:
            return
        del channel.unsent[:count]
        channel.used += count
        if channel.used >= WINDOW // 4:
            self.say(Frame(TAKEN, number, struct.pack(">I", channel.used)))
            channel.used = 0
        if channel.ending and not channel.unsent:
            self._drop(number)

    def _end(self, number: int) -> None:
        self.say(Frame(CLOSE, number))
        self._drop(number)

    def _drop(self, number: int) -> None:
        self._channels.pop(number).socket.close()

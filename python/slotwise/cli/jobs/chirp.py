"""``slotwise chirp``: in a running job, files, attributes and log of its access point (condor_chirp)."""

from __future__ import annotations

import contextlib
import socket
import stat
from collections.abc import Callable, Iterator

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import HostError, PeerUnavailableError, UsageError

USAGE = """usage: slotwise chirp COMMAND ...            (in a job with want_io_proxy = true)
  fetch REMOTE LOCAL                copy a file of the access point here; LOCAL - is standard output
  put [-mode cwat] [-perm MODE] LOCAL REMOTE   copy a file to the access point; LOCAL - is standard input
  remove REMOTE                     remove a file there
  getdir REMOTE | rmdir REMOTE | stat REMOTE
  get_job_attr NAME                 print an attribute of the job
  set_job_attr NAME EXPR            change it
  get_job_attr_delayed NAME         also one that waits for the next update
  set_job_attr_delayed NAME EXPR    change it with the next update (any job; names that begin with Chirp)
  ulog TEXT                         write a line into the job's event log"""
_TIMEOUT_S = 330.0
_PART = 1024 * 1024
_SAID = {
    -1: "not authenticated", -2: "not permitted", -3: "does not exist", -4: "exists already", -5: "too big",
    -6: "no space", -8: "invalid request", -11: "try again", -13: "is a directory", -14: "is not a directory",
    -15: "is not empty",
}  # fmt: skip


def main(args: list[str], inv: Invocation) -> int:
    """Do one command."""
    if not args or args[0] in ("-h", "-help", "--help"):
        inv.out(USAGE)
        return 0 if args else 1
    name, *rest = args
    known = _COMMANDS.get(name)
    if known is None:
        raise UsageError(f"there is no chirp command {name!r}", hint="slotwise chirp --help lists them")
    least, most, act = known
    if not least <= len(rest) <= most:
        raise UsageError(f"chirp {name} takes other words", hint="see slotwise chirp --help")
    with _connected(inv) as talk:
        act(talk, rest, inv)
    return 0


class Talk:
    """A connection to the starter of the job."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._file = stream.makefile("rb")

    def ask(self, *words: str, data: bytes = b"") -> int:
        """Send a request; the number in its answer.

        :raises HostError: when that is an error.
        """
        line = " ".join("".join(f"\\{c}" if c in "\\ \t\n\r" else c for c in word) for word in words)
        self._stream.sendall(line.encode() + b"\n" + data)
        return self.number(words[0], *words[1:2])

    def number(self, *what: str) -> int:
        """The next answer."""
        line = self._file.readline()
        if not line:
            raise PeerUnavailableError("the starter has hung up")
        number = int(line)
        if number < 0:
            raise HostError(f"{' '.join(what)}: {_SAID.get(number, f'error {number}')}")
        return number

    def data(self, length: int) -> bytes:
        """Data after a reply."""
        return self._file.read(length)

    def line(self) -> str:
        """A line after a reply."""
        return self._file.readline().decode().strip()


@contextlib.contextmanager
def _connected(inv: Invocation) -> Iterator[Talk]:
    path = inv.env.get("_CONDOR_CHIRP_CONFIG") or ".chirp.config"
    try:
        host, port, secret = inv.path(path).read_text().split()
        stream = socket.create_connection((host, int(port)), _TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise PeerUnavailableError(
            f"cannot speak to the access point: {error}", hint="this works in running jobs only"
        ) from None
    with stream:
        talk = Talk(stream)
        talk.ask("cookie", secret)
        yield talk


def _fetch(talk: Talk, words: list[str], inv: Invocation) -> None:
    remote, local = words
    number = talk.ask("open", remote, "r", "0")
    talk.line()
    target = None if local == "-" else inv.path(local)
    with contextlib.ExitStack() as stack:
        sink: Callable[[bytes], object] = (
            stack.enter_context(open(target, "wb")).write if target else lambda data: _out(inv, data)
        )
        while length := talk.ask("read", str(number), str(_PART)):
            sink(talk.data(length))


def _out(inv: Invocation, data: bytes) -> None:
    inv.stdout.write(data.decode("utf-8", "surrogateescape"))


def _put(talk: Talk, words: list[str], inv: Invocation) -> None:
    letters, mode = "wct", 0o644
    while words and words[0] in ("-mode", "-perm") and len(words) > 2:
        option, value, *words = words
        if option == "-mode":
            letters = value
        else:
            mode = int(value, 8)
    if len(words) != 2:
        raise UsageError("chirp put takes LOCAL and REMOTE")
    local, remote = words
    data = inv.stdin.read().encode("utf-8", "surrogateescape") if local == "-" else inv.path(local).read_bytes()
    number = talk.ask("open", remote, letters, str(mode))
    talk.line()
    for start in range(0, len(data), _PART):
        part = data[start : start + _PART]
        talk.ask("write", str(number), str(len(part)), data=part)
    talk.ask("close", str(number))


def _get(command: str) -> Callable[[Talk, list[str], Invocation], None]:
    def act(talk: Talk, words: list[str], inv: Invocation) -> None:
        inv.out(talk.data(talk.ask(command, *words)).decode())

    return act


def _say(command: str) -> Callable[[Talk, list[str], Invocation], None]:
    def act(talk: Talk, words: list[str], _inv: Invocation) -> None:
        talk.ask(command, *words)

    return act


def _stat(talk: Talk, words: list[str], inv: Invocation) -> None:
    talk.ask("stat", *words)
    numbers = [int(word) for word in talk.line().split()]
    inv.out(f"{stat.filemode(numbers[2])} {numbers[4]}:{numbers[5]} {numbers[7]} bytes, modified {numbers[11]}")


def _directory(talk: Talk, words: list[str], inv: Invocation) -> None:
    inv.out(talk.data(talk.ask("getdir", *words)).decode(), end="")


_COMMANDS: dict[str, tuple[int, int, Callable[[Talk, list[str], Invocation], None]]] = {
    "fetch": (2, 2, _fetch),
    "put": (2, 6, _put),
    "remove": (1, 1, _say("unlink")),
    "getdir": (1, 1, _directory),
    "rmdir": (1, 1, _say("rmdir")),
    "stat": (1, 1, _stat),
    "get_job_attr": (1, 1, _get("get_job_attr")),
    "set_job_attr": (2, 2, _say("set_job_attr")),
    "get_job_attr_delayed": (1, 1, _get("get_job_attr_delayed")),
    "set_job_attr_delayed": (2, 2, _say("set_job_attr_delayed")),
    "ulog": (1, 1, _say("ulog")),
}

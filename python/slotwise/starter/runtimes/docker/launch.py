"""Creates a job's container, and is the client that is attached to it.

The keeper runs this module in an interpreter of its own (it imports nothing of the package): whenever the job is
started or started again, its container is made anew, and a starter that has died is not missed. It talks to the
daemon's socket itself where :func:`words` has one, which spares two starts of Docker's program; elsewhere it runs the
program, and becomes it.

What it is told is in its environment, and not on its command line: other accounts of the host read the command lines of
all processes, and the job's own environment is no business of theirs. Docker's program reads that from a file without a
name.

Modules that take longer to load than the rest of this one (socket, typing, json, subprocess) are left out, or loaded
while the container starts.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence

#: The exit status when there is no container; Docker's own for an error of the daemon.
NO_CONTAINER = 125
#: The exit status when the container could not be started, or its end not be awaited: the daemon knows why.
_NOT_RUN = 1
#: How long the daemon may take to answer, seconds. As long as HTCondor waits for it.
ANSWER_S = 120.0
_READ = 1 << 16
#: Signals that are this process's own: those that tell of its children and pipes, that stop it, and of its own faults.
_OWN_SIGNALS = frozenset((
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGURG, signal.SIGSEGV, signal.SIGBUS,
    signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
))  # fmt: skip

#: What begins the names of the variables in which :func:`words` are.
_WORD = "_SLOTWISE_WORD_"
#: The longest line of a file of variables that Docker's program reads, bytes (64 KiB with the line's end).
_LONGEST_LINE = (1 << 16) - 2

#: A directory that the container gets at the same path, as its user finds it when the container is made: path, user,
#: group, other groups. The name might lead elsewhere when the daemon looks: it is given the directory open; or by its
#: name, and the container, which has not begun to run, is looked into.
UserDirectory = tuple[str, int, int, tuple[int, ...]]


class Parsed:
    """What the keeper's words say."""

    #: Where to write why there is no container, and its name.
    errors = name = ""
    directory: UserDirectory | None = None
    #: The daemon is given it by its name, which is among its words already.
    by_name = False
    #: The daemon's socket, and the body of the request that creates the container; empty: by the program.
    socket = body = ""
    #: The program, its words for the start and for the creation.
    client: Sequence[str] = ()
    start: Sequence[str] = ()
    create: Sequence[str] = ()
    #: ``NAME=value`` of each variable of the job.
    environment: Sequence[str] = ()


def words(
    errors: str,
    name: str,
    client: Sequence[str],
    start: Sequence[str],
    create: Sequence[str],
    directory: UserDirectory | None = None,
    *,
    by_name: bool = False,
    environment: Sequence[str] = (),
    socket: str = "",
    body: str = "",
) -> dict[str, str]:
    """The variables that tell this module what to do.

    :param environment: ``NAME=value`` of each variable of the job; they are in ``body``, too, where there is one.
    :param body: a JSON text; a line end in it stands for the path of the directory.
    """
    shown = ["", ""]
    if directory is not None:
        path, uid, gid, groups = directory
        shown = [path, " ".join(map(str, (int(by_name), uid, gid, *groups)))]
    lists = [word for some in (client, start, environment) for word in (str(len(some)), *some)]
    told = [errors, name, *shown, socket, body, *lists, *create]
    return {f"{_WORD}{number}": word for number, word in enumerate(told)}


def taken(environment: MutableMapping[str, str]) -> list[str]:
    """Take the words out of an environment, which a program that is run has not."""
    found: list[str] = []
    while (name := f"{_WORD}{len(found)}") in environment:
        found.append(environment.pop(name))
    return found


def program() -> list[str]:
    """The words before :func:`words`: as a module it is compiled once, as a file each time."""
    place = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - see the module's head
    code = "import os, sys; sys.path.insert(0, sys.argv.pop(1)); import launch"
    code += "; sys.exit(launch.main(launch.taken(os.environ)))"
    return [sys.executable, "-I", "-S", "-c", code, place]


def parsed(arguments: Sequence[str]) -> Parsed:
    """What :func:`words` made of, as :func:`taken` finds it."""
    found = Parsed()
    found.errors, found.name, path, account, found.socket, found.body, *rest = arguments
    if path:
        by_name, uid, gid, *groups = map(int, account.split())
        found.directory, found.by_name = (path, uid, gid, tuple(groups)), bool(by_name)
    lists = []
    for _ in range(3):
        count = int(rest[0])
        lists.append(rest[1 : 1 + count])
        rest = rest[1 + count :]
    found.client, found.start, found.environment = lists
    found.create = rest
    return found


def main(arguments: Sequence[str]) -> int:
    """Do it; by the program, returns only when there is no container."""
    wanted = parsed(arguments)
    place = ""
    if wanted.directory is not None:
        try:
            place = _opened(wanted.directory)
        except OSError as error:
            _write(wanted.errors, f"{wanted.directory[0]}: {error.strerror}")
            return NO_CONTAINER
    return _by_socket(wanted, place) if wanted.socket else _by_program(wanted, place)


# ---- by Docker's program


def _by_program(wanted: Parsed, place: str) -> int:
    errors, name, client, create = wanted.errors, wanted.name, wanted.client, wanted.create
    if wanted.directory is not None and not wanted.by_name:
        create = [create[0], *volume(place, wanted.directory[0]), *create[1:]]
    if odd := [entry for entry in wanted.environment if not _fits_file(entry)]:
        what = odd[0].partition("=")[0][:200]
        _write(errors, f"{client[0]} cannot be given the variable {what}, which has a line end or is too long")
        return NO_CONTAINER
    if wanted.environment:
        create = [create[0], "--env-file", _file_of(wanted.environment), *create[1:]]
    status, said = _run([*client, *create], errors)
    if status != 0 and name in said and "in use" in said:
        _run([*client, "rm", "--force", "--volumes", name], errors)  # of a former start, whose keeper was killed
        status, said = _run([*client, *create], errors)
    if status == 0 and wanted.directory is not None and wanted.by_name:
        status, said = _run([*client, "init", name], errors)
        if status == 0 and not _shows(_pid_by_program(wanted), wanted.directory[0], place):
            said = _exchanged(wanted.directory)
            status = NO_CONTAINER
        if status != 0:
            _run([*client, "rm", "--force", "--volumes", name], errors)
            _write(errors, said or f"{client[0]} init ended with status {status}")
            return NO_CONTAINER
    if status == 0:
        os.unlink(errors)  # noqa: PTH108 - pathlib takes as long to load as the rest of this program
        os.execv(client[0], [*client, *wanted.start, name])
    if not said.strip():
        _write(errors, f"docker create ended with status {status}")
    return NO_CONTAINER


def _fits_file(entry: str) -> bool:
    """Whether a variable is itself when Docker's program, or podman, reads it from a line of a file."""
    name = entry.partition("=")[0]
    plain = not any(char.isspace() or char in "#*" for char in name) and not any(char in entry for char in "\n\r")
    try:
        return bool(name) and plain and len(entry.encode()) <= _LONGEST_LINE
    except UnicodeEncodeError:
        return False


def _file_of(environment: Sequence[str]) -> str:
    """A path to a file with these variables that is there for as long as this process, and for its account alone."""
    file = os.memfd_create("environment", os.MFD_CLOEXEC)
    data = "".join(f"{entry}\n" for entry in environment).encode()
    while data:
        data = data[os.write(file, data) :]
    return f"/proc/{os.getpid()}/fd/{file}"


def volume(place: str, target: str) -> list[str]:
    """The options of a container that gets a directory which a process has open: a volume without a name, which goes
    with the container. The daemon mounts it in its own namespace; what is to be mounted in the container's, as
    directories usually are, cannot be one that is open outside."""
    fields = ["type=volume", f"destination={target}", "volume-driver=local", "volume-nocopy=true"]
    fields += ["volume-opt=type=none", "volume-opt=o=bind", f"volume-opt=device={place}"]
    return ["--mount", ",".join('"' + field.replace('"', '""') + '"' for field in fields)]


def _pid_by_program(wanted: Parsed) -> int:
    """The first process of a container that has been made and does not run yet; 0: there is none."""
    out = f"{wanted.errors}.pid"
    _run([*wanted.client, "inspect", "--format", "{{.State.Pid}}", wanted.name], wanted.errors, out)
    with open(out) as file:
        text = file.read().strip()
    os.unlink(out)  # noqa: PTH108 - as above
    return int(text) if text.isdigit() else 0


def _shows(pid: int, target: str, place: str) -> bool:
    """Whether a container shows the directory that is open here as ``place``, by the container's first process: as that
    process finds it, whatever links its image has."""
    if pid <= 0:
        return False
    wanted = os.stat(place)  # noqa: PTH116 - as above
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chroot(f"/proc/{pid}/root")
            os.chdir("/")
            found = os.stat(target)  # noqa: PTH116
            status = int((found.st_dev, found.st_ino) != (wanted.st_dev, wanted.st_ino))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _exchanged(directory: UserDirectory) -> str:
    return f"{directory[0]} was another directory when its container was made"


def _opened(directory: UserDirectory) -> str:
    """A path to the directory that stays the same one for as long as this process and the client live.

    :raises OSError: when the user cannot reach it.
    """
    with _rights(directory):
        place = os.open(directory[0], os.O_PATH | os.O_DIRECTORY)
        os.stat(".", dir_fd=place)  # whether it may be searched
    os.set_inheritable(place, True)
    return f"/proc/{os.getpid()}/fd/{place}"


@contextlib.contextmanager
def _rights(directory: UserDirectory) -> Iterator[None]:
    """The rights of the user, where this process may take them."""
    if os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    _, uid, gid, others = directory
    os.setgroups(others)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _write(path: str, text: str) -> None:
    with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text)


def _run(command: Sequence[str], errors: str, out: str = "/dev/null") -> tuple[int, str]:
    """The status of a client, and what it says on standard error, which is in the file ``errors``.

    Without the module subprocess, which takes as long to load as the rest of this program.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    redirected = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, errors, flags, 0o600),
    ]
    try:
        pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=redirected)
    except OSError as error:
        _write(errors, f"{command[0]}: {error.strerror}")
        return NO_CONTAINER, str(error)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(errors, errors="replace") as file:
        return status, file.read()


# ---- by the daemon's socket


def request(method: str, target: str, body: str = "") -> bytes:
    """A request as it is sent; the daemon closes the connection behind its answer, which is not in chunks."""
    data = body.encode("utf-8", "surrogateescape")
    head = f"{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def answer(received: bytes) -> tuple[int, bytes]:
    """Status and body of an answer.

    :raises OSError: when it is none.
    """
    head, _, body = received.partition(b"\r\n\r\n")
    parts = head.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or len(parts[1]) != 3 or not parts[1].isdigit():
        raise OSError(f"the daemon's answer is not HTTP: {received[:60]!r}")
    return int(parts[1]), body


def message(body: bytes) -> str:
    """What the daemon says of a request that it refuses."""
    import json

    with contextlib.suppress(ValueError):
        found = json.loads(body)
        if isinstance(found, dict) and isinstance(found.get("message"), str):
            return str(found["message"])
    return body.decode(errors="replace")


def _connected(socket: str, limit_s: float | None) -> _socket.socket:
    """:raises OSError: when the daemon does not listen."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(limit_s)
    link.connect(socket)
    return link


def _called(
    socket: str, method: str, target: str, body: str = "", limit_s: float | None = ANSWER_S
) -> tuple[int, bytes]:
    """Ask the daemon. :raises OSError: when it cannot be asked, or does not answer in time."""
    link = _connected(socket, limit_s)
    try:
        link.sendall(request(method, target, body))
        received = b""
        while data := link.recv(_READ):
            received += data
    finally:
        link.close()
    return answer(received)


def _by_socket(wanted: Parsed, place: str) -> int:
    socket, name = wanted.socket, wanted.name
    body = place.join(wanted.body.split("\n", 1))
    try:
        status, said = _called(socket, "POST", f"/containers/create?name={name}", body)
        if status == 409:  # of a former start, whose keeper was killed
            _called(socket, "DELETE", f"/containers/{name}?force=1&v=1")
            status, said = _called(socket, "POST", f"/containers/create?name={name}", body)
    except OSError as error:
        _write(wanted.errors, f"Cannot connect to the Docker daemon at {socket}: {error}")
        return NO_CONTAINER
    if status == 404 and b"o such image" in said:  # it has been removed since it was looked for: the program pulls it
        return _by_program(wanted, place)
    if status != 201:
        _write(wanted.errors, message(said) or f"the daemon refused the container with status {status}")
        return NO_CONTAINER
    typed = '"OpenStdin":true' in body
    try:
        if wanted.directory is not None and wanted.by_name and (why := _not_shown(wanted, wanted.directory, place)):
            _called(socket, "DELETE", f"/containers/{name}?force=1&v=1")
            _write(wanted.errors, why)
            return NO_CONTAINER
        return _attached(socket, name, typed=typed)
    except OSError as error:
        _write(wanted.errors, f"lost the connection to the Docker daemon at {socket}: {error}")
        return _NOT_RUN


def _not_shown(wanted: Parsed, directory: UserDirectory, place: str) -> str:
    """Why a container of podman's must not run, once its mounts are made; empty when it may.

    :raises OSError: when the service cannot be asked.
    """
    import json

    status, said = _called(wanted.socket, "POST", f"/v4.0.0/libpod/containers/{wanted.name}/init")
    if status not in (200, 204, 304):
        return message(said) or f"podman's service makes no container ready: status {status}"
    status, said = _called(wanted.socket, "GET", f"/containers/{wanted.name}/json")
    found = json.loads(said) if status == 200 else None
    state = found.get("State") if isinstance(found, dict) else None
    pid = state.get("Pid") if isinstance(state, dict) else None
    return "" if isinstance(pid, int) and _shows(pid, directory[0], place) else _exchanged(directory)


def _attached(socket: str, name: str, *, typed: bool) -> int:
    """Start the container, and be its standard streams until it ends; its exit status.

    :raises OSError: when the daemon is lost, or an output cannot be written.
    """
    link = _connected(socket, ANSWER_S)
    streams = "stream=1&stdout=1&stderr=1" + ("&stdin=1" if typed else "")
    head = f"POST /containers/{name}/attach?{streams} HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n"
    link.sendall(f"{head}Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        data = link.recv(_READ)
        if not data:
            raise OSError("no answer")
        received += data
    status, early = answer(received)
    if status not in (101, 200):
        return _NOT_RUN
    send_on = _signals_to(socket, name)
    status, _ = _called(socket, "POST", f"/containers/{name}/start")
    if status not in (204, 304):
        return _NOT_RUN
    send_on()
    import json

    _pump(link, early, typed=typed)
    # A job may close its streams before it ends.
    status, said = _called(socket, "POST", f"/containers/{name}/wait", limit_s=None)
    found = json.loads(said) if status == 200 else None
    code = found.get("StatusCode") if isinstance(found, dict) else None
    return code if isinstance(code, int) else _NOT_RUN


def _signals_to(socket: str, name: str) -> Callable[[], None]:
    """From now on, pass signals to the container. The result sends those that have come before it ran."""
    early: list[int] = []
    runs = False

    def send(number: int, _frame: object = None) -> None:
        if not runs:
            early.append(number)
            return
        with contextlib.suppress(OSError):  # it has ended, or the daemon has: that is seen elsewhere
            _called(socket, "POST", f"/containers/{name}/kill?signal={number}")

    def send_on() -> None:
        nonlocal runs
        runs = True
        while early:
            send(early.pop(0))

    for number in range(1, signal.NSIG):
        if number not in _OWN_SIGNALS:
            with contextlib.suppress(OSError, ValueError):  # there are none between those of the kernel and of threads
                signal.signal(number, send)
    return send_on


def _pump(link: _socket.socket, early: bytes, *, typed: bool) -> None:
    """Copy standard input to the container, and what it prints to standard output and error, until it closes them.

    :raises OSError: when the daemon is lost, or an output cannot be written.
    """
    link.setblocking(False)
    heard, waiting = bytearray(early), b""
    poll = select.poll()
    open_input = typed
    if not typed:
        link.shutdown(_socket.SHUT_WR)
    while True:
        heard = _printed(heard)
        poll.register(link, select.POLLIN | (select.POLLOUT if waiting else 0))
        if open_input and not waiting:
            poll.register(0, select.POLLIN)
        elif typed:
            with contextlib.suppress(KeyError):
                poll.unregister(0)
        for number, event in poll.poll():
            if number == 0:
                waiting = os.read(0, _READ)
                if not waiting:
                    open_input = False
                    link.shutdown(_socket.SHUT_WR)
                continue
            if event & select.POLLOUT:
                with contextlib.suppress(BlockingIOError):
                    waiting = _sent(link, waiting)
            if event & ~select.POLLOUT:
                data = link.recv(_READ)
                if not data:
                    return
                heard += data


def _sent(link: _socket.socket, waiting: bytes) -> bytes:
    """What is left of ``waiting`` when the container has been sent what it takes now."""
    try:
        return waiting[link.send(waiting) :]
    except (BrokenPipeError, ConnectionResetError):
        return b""  # it reads no more


def _printed(heard: bytearray) -> bytearray:
    """Write the whole frames of what was heard; what is left. A frame: its stream, three bytes, its length, its data.

    :raises OSError: when an output cannot be written.
    """
    at = 0
    while len(heard) - at >= 8:
        end = at + 8 + int.from_bytes(heard[at + 4 : at + 8], "big")
        if len(heard) < end:
            break
        data, stream = memoryview(heard)[at + 8 : end], 2 if heard[at] == 2 else 1
        while data:
            data = data[os.write(stream, data) :]
        at = end
    return heard[at:]


if __name__ == "__main__":
    sys.exit(main(taken(os.environ)))

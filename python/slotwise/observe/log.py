"""Daemon logs: one file per daemon, each line with its time, rotated when it is large or old.

``<SUBSYS>_LOG`` names the file (default ``<Daemon>Log`` in ``LOG``), ``MAX_<SUBSYS>_LOG`` its size or age,
``MAX_NUM_<SUBSYS>_LOG`` how many old ones are kept, ``<SUBSYS>_DEBUG`` and ``ALL_DEBUG`` how much is written
(:mod:`slotwise.config.debug`). A category may have another file of its own: ``NEGOTIATOR_MATCH_LOG`` gets the
negotiator's lines of the category D_MATCH. Rules: guide "Reading the logs".

Modules log with ``logging.getLogger(__name__)``: ``info`` and above is always written, ``debug`` with D_FULLDEBUG.
:func:`category` returns the logger of a category: ``info`` is written if it is selected, ``debug`` if it is with
``:2``, and :data:`ALSO_ALWAYS` and above always.

Lines are cheap: formatted once, collected, and written together within :data:`FLUSH_S`; warnings and errors at once.
Whatever a message quotes, a line stays one line: control characters are escaped. Secrets never go into messages: claim
ids are logged through :func:`slotwise.ids.public_claim_id`, and no environment at all.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from slotwise.config.debug import CATEGORIES, DebugFlags
from slotwise.config.log_limits import HINT, limit_of
from slotwise.errors import ConfigError, HostError
from slotwise.home import PoolHome
from slotwise.model.knobs import Knobs

_NAMES = {
    "master": "MasterLog",
    "collector": "CollectorLog",
    "negotiator": "NegotiatorLog",
    "schedd": "SchedLog",
    "startd": "StartLog",
    "starter": "StarterLog",
    "front": "FrontLog",
    "defrag": "DefragLog",
    "rooster": "RoosterLog",
    "librarian": "LibrarianLog",
    "web": "WebLog",
    "shared_port": "SharedPortLog",
}


def log_file(home: PoolHome, daemon: str, config: Knobs | None = None) -> Path:
    """The log file of ``daemon``: <SUBSYS>_LOG, else its usual name in LOG (the home's ``log`` when unset)."""
    name = _NAMES.get(daemon, f"{daemon.capitalize()}Log")
    if config is None:
        return home.log / name
    named = f"{daemon.upper()}_LOG"
    if config.is_set(named) and (path := config.get(named)):
        return Path(path)
    return Path(config.get("LOG") or home.log) / name


def category_file(home: PoolHome, daemon: str, category: str, config: Knobs) -> Path | None:
    """The file of a daemon's category of lines (``MATCH``, ``AUDIT``), if it has one of its own.

    <SUBSYS>_<CATEGORY>_LOG names it; audit lines have one beside the daemon's log unless that knob is empty.
    """
    knob = f"{daemon.upper()}_{category}_LOG"
    if category == "AUDIT" and not config.is_set(knob):
        usual = _NAMES.get(daemon, f"{daemon.capitalize()}Log").removesuffix("Log")
        return log_file(home, daemon, config).with_name(f"{usual}AuditLog")
    own = config.get(knob)
    return Path(own) if own else None


def _limit_in(config: Knobs, knob: str) -> tuple[int, int]:
    """As :func:`limit_of` of a knob.

    :raises ConfigError: it is neither a size nor an age.
    """
    try:
        return limit_of(config.get_text(knob))
    except ValueError as error:
        raise ConfigError(f"{knob}: {error}", hint=HINT, key=knob) from None


#: The level of a category's messages that go into the daemon's log even if the category is not selected.
ALSO_ALWAYS = logging.INFO + 5
#: The least time between two writes, in seconds: a line after a quiet time is written without delay.
FLUSH_S = 0.2
#: The most lines that wait for a slow disk; more are lost, and counted.
_WAITING_MOST = 100_000
#: What CREDMON_OAUTH_LOG has besides the schedd's log: lines about the credentials of users.
_CREDENTIALS = "slotwise.schedd.credentials"
_LISTED_MOST = 40


def category(name: str) -> logging.Logger:
    """The logger of a category of :data:`slotwise.config.debug.CATEGORIES`."""
    return logging.getLogger(name)


def log_all(logger: logging.Logger, lines: Sequence[tuple[object, ...]]) -> None:
    """As ``logger.info(*line)`` for each of the lines, at a fifth of the cost if they go to one file."""
    handlers = logging.getLogger().handlers
    if len(handlers) == 1 and isinstance(handlers[0], LogFile) and logger.isEnabledFor(logging.INFO):
        handlers[0].add(lines)
    else:
        for line in lines:
            logger.info(*line)


def one_line(text: str) -> str:
    """``text`` with escapes for characters that would end the line, hide a part of it or move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _words(text: object, args: object) -> str:
    """A message with its arguments; both beside each other where they do not fit: a line never stops what writes it."""
    try:
        return str(text) % args if args else str(text)
    except (TypeError, ValueError, KeyError):
        return f"{text} {args!r} (this line's arguments do not fit its text)"


def listed(names: Sequence[str], count: int | None = None) -> str:
    """Names for a line, cut after the first forty; ``count``: how many there are, if more than these."""
    count = len(names) if count is None else count
    text = " ".join(names[:_LISTED_MOST])
    return f"{text} ..." if count > _LISTED_MOST else text


#: The rights with which log files are opened and rotated.
_rights: Callable[[], AbstractContextManager[None]] = nullcontext


def touch_logs_within(rights: Callable[[], AbstractContextManager[None]]) -> None:
    """Open and rotate log files within ``rights()`` from now on: a daemon of root's whose logs are another account's
    must not follow that account's links with its own rights."""
    global _rights
    _rights = rights


def open_log(path: Path) -> int:
    """A descriptor to read a log, or another file of LOG, by.

    LOG may be another account's than the reader's, who may be root: a link there is not followed, a file that has
    another name elsewhere not read, and a pipe not waited for.

    :raises OSError: there is none, or it is not such a file.
    """
    with _rights():
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    odd = "it has another name elsewhere" if stat.S_ISREG(about.st_mode) else "it is not a plain file"
    raise OSError(errno.EINVAL, odd, str(path))


class LogFile(logging.Handler):
    """One log file, written by a thread of its own so that a line costs the caller no system call.

    :param limit: (bytes, seconds) after which the file is rotated, 0 for none.
    :param kept: how many old files are kept: one as ``.old``, several with the time in their names.
    :param headers: what begins each line besides the time, see :data:`slotwise.config.debug.HEADERS`.
    :param least: least level by logger; other loggers have the handler's.
    """

    def __init__(
        self,
        path: Path,
        *,
        limit: tuple[int, int] = (0, 0),
        kept: int = 1,
        headers: frozenset[str] = frozenset(),
        time_format: str = "%m/%d/%y %H:%M:%S",
        least: dict[str, int] | None = None,
        truncate: bool = False,
    ) -> None:
        self.path = path
        self._limit_bytes, self._limit_s = limit
        self._kept = kept
        self._headers = headers
        self._time_format = time_format
        self._least = least or {}
        self._stamp = (-1, "")
        self._lines: deque[str] = deque()
        self._lost = 0
        self._due = False
        self._wake = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._open(os.O_TRUNC if truncate else 0)
        super().__init__()  # last: logging closes at the process's end whatever it knows, half made or not
        _files.add(self)

    # ---- lines

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record without the lock of handlers: the queue of lines is safe without it."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.levelno < self._least.get(record.name, 0):
            return
        if len(self._lines) > _WAITING_MOST:
            self._lost += 1
            return
        self._lines.append(self.format(record))
        if record.levelno >= logging.WARNING:
            self.flush()
        else:
            self._ask_for_writing()

    def add(self, lines: Sequence[tuple[object, ...]]) -> None:
        """Take messages of the level INFO, each a format and its arguments, that were made at the same moment."""
        if len(self._lines) > _WAITING_MOST:
            self._lost += len(lines)
            return
        header = self._header(logging.LogRecord("", logging.INFO, "", 0, "", None, None))
        for text, *args in lines:
            self._lines.append(f"{header}{one_line(_words(text, tuple(args)))}\n")
        self._ask_for_writing()

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, and those of a traceback below, each beginning with a tab."""
        text = one_line(_words(record.msg, record.args))
        if record.levelno >= logging.WARNING:
            text = f"{'ERROR' if record.levelno >= logging.ERROR else 'WARNING'}: {text}"
        line = f"{self._header(record)}{text}\n"
        if record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
            line += "".join(f"\t{one_line(part)}\n" for part in trace.split("\n"))
        return line

    def _header(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._stamp[0]:
            text = (
                str(second)
                if "D_TIMESTAMP" in self._headers
                else time.strftime(self._time_format, time.localtime(second))
            )
            self._stamp = (second, text)
        header = self._stamp[1]
        if not self._headers:
            return header + " "
        if "D_SUB_SECOND" in self._headers:
            header += f".{int(record.msecs):03d}"
        if "D_PID" in self._headers:
            header += f" (pid:{os.getpid()})"
        if "D_CAT" in self._headers:
            header += f" ({_category_of(record)})"
        return header + " "

    # ---- writing

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._write_on, name=f"log {self.path.name}", daemon=True)
        self._thread.start()

    def _ask_for_writing(self) -> None:
        if not self._due:
            self._due = True
            if self._thread is None:
                self._start()
            self._wake.set()

    def _write_on(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            self._due = False  # before the lines are taken: a line from now on wakes this thread again
            self.flush()
            self._ended.wait(FLUSH_S)

    def flush(self) -> None:
        """Write the waiting lines."""
        with self._writing:
            lines = []
            with contextlib.suppress(IndexError):
                while True:
                    lines.append(self._lines.popleft())
            if lines and not (self._closed and self._descriptor < 0):
                self._write(lines)

    def _write(self, lines: list[str]) -> None:
        try:
            self._reopen_if_moved()
            if self._lost:
                lost, self._lost = self._lost, 0
                lines.insert(0, f"{time.strftime(self._time_format)} WARNING: {lost} lines of this log were lost\n")
            data = bytearray()
            for line in lines:
                encoded = line.encode("utf-8", "backslashreplace")
                if self._is_full(len(data), len(encoded)):
                    self._put(data)
                    data.clear()
                    self._rotate()
                data += encoded
            self._put(data)
        except OSError:  # a failure of the log could be reported in the log only
            self._lost += len(lines)

    def _put(self, data: bytearray) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self._size += written
            view = view[written:]
        view.release()

    def _is_full(self, waiting: int, more: int) -> bool:
        size = self._size + waiting
        if self._limit_s:
            return size > 0 and time.time() >= self._begun + self._limit_s
        return bool(self._limit_bytes) and size > 0 and size + more > self._limit_bytes

    # ---- the file

    def _open(self, flags: int = 0) -> None:
        with _rights():
            self._open_now(flags)

    def _open_now(self, flags: int) -> None:
        mode = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags
        try:
            self._descriptor = os.open(self.path, mode)
        except FileNotFoundError:
            self._descriptor = os.open(self.path, mode | os.O_CREAT, 0o644)
            os.fchmod(self._descriptor, 0o644)  # whatever the daemon's umask: administrators read logs as themselves
        state = os.fstat(self._descriptor)
        self._size, self._inode = state.st_size, state.st_ino
        self._begun = state.st_mtime
        with contextlib.suppress(OSError):
            if self._size:  # it was started when the one before was rotated
                self._begun = min(self._begun, self.path.with_name(self.path.name + ".old").stat().st_mtime)

    def _reopen_if_moved(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._descriptor >= 0 and self.path.stat().st_ino == self._inode:
                return
        self._shut()
        self._open()

    def _shut(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _rotate(self) -> None:
        with _rights():
            self._put_aside()
        self._open()
        self._begun = time.time()

    def _put_aside(self) -> None:
        self._shut()
        old = self.path.with_name(self.path.name + ".old")
        if self._kept > 1:
            stamp = time.strftime("%Y%m%dT%H%M%S")
            old = self.path.with_name(f"{self.path.name}.{stamp}")
            while old.exists():
                old = old.with_name(old.name + "_")
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(old)
        if self._kept > 1:
            aside = sorted(self.path.parent.glob(f"{self.path.name}.[0-9]*"))
            for each in aside[: -self._kept]:
                each.unlink(missing_ok=True)

    def close(self) -> None:
        """Write the waiting lines, and stop."""
        self._closed = True
        self._ended.set()
        self._wake.set()
        self.flush()
        with self._writing:
            self._shut()
        super().close()

    def _forked(self) -> None:
        """In a child: the parent writes the waiting lines, and the thread does not exist here."""
        self._lines = deque()
        self._writing = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread, self._due = None, False


#: All log files of this process.
_files: weakref.WeakSet[LogFile] = weakref.WeakSet()


def _forked() -> None:
    for file in list(_files):
        file._forked()


os.register_at_fork(after_in_child=_forked)


def _category_of(record: logging.LogRecord) -> str:
    if record.levelno >= logging.WARNING:
        return "D_ERROR"
    if record.name in CATEGORIES:
        return f"{record.name}:2" if record.levelno < logging.INFO else record.name
    return "D_ALWAYS" if record.levelno >= logging.INFO else "D_ALWAYS:2"


def _is_not_a_cancelled_call(record: logging.LogRecord) -> bool:
    """gRPC reports a call that is cancelled at the daemon's end as an error that nobody handles."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "CancelledError"  # without the import, which commands need not wait for


def start_log(home: PoolHome, daemon: str, config: Knobs, *, again: bool = False) -> DebugFlags:
    """Send this process's log records to the daemon's log file; ``again``: after a reconfig.

    :raises ConfigError: a knob of the log is none.
    :raises HostError: a log cannot be written; the former ones stay.
    """
    # No line shows its caller's place, thread or process, and finding them costs as much as the rest of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as logging's manual says
    subsystem = daemon.upper()
    flags = DebugFlags.parse(config.get("ALL_DEBUG"), config.get(f"{subsystem}_DEBUG") or config.get("DEFAULT_DEBUG"))
    time_format = config.get_text("DEBUG_TIME_FORMAT").strip('"')
    headers = frozenset(flags.headers | ({"D_TIMESTAMP"} if config.get_bool("LOGS_USE_TIMESTAMP") else set()))

    def opened(path: Path, name: str, headers: frozenset[str], least: dict[str, int]) -> LogFile:
        limit = _limit_in(config, f"MAX_{name}_LOG")
        try:
            return LogFile(
                path,
                limit=limit,
                kept=max(1, config.get_int(f"MAX_NUM_{name}_LOG")),
                headers=headers,
                time_format=time_format,
                least=least,
                truncate=not again and config.get_bool(f"TRUNC_{name}_LOG_ON_OPEN"),
            )
        except OSError as error:
            to = f", a link to {path.readlink()}" if path.is_symlink() else ""
            hint = f"make its directory, or have {name}_LOG name another file"
            number = error.errno or 0
            message = f"cannot write the log {path}{to}: {error.strerror}"
            raise HostError(message, hint=hint, path=str(path), errno=number) from None

    levels = {name: _least(flags.verbosity.get(name, 0)) for name in CATEGORIES if name != "D_FULLDEBUG"}
    path = log_file(home, daemon, config)
    handler = opened(path, subsystem, headers, levels)
    root = logging.getLogger()
    former, root.handlers[:] = list(root.handlers), [handler]
    root.setLevel(logging.DEBUG if "D_FULLDEBUG" in flags.verbosity else logging.INFO)
    for name, level in levels.items():
        logger = logging.getLogger(name)
        former += logger.handlers
        logger.handlers[:] = []
        own = category_file(home, daemon, name[2:], config)
        if own is not None and own != path:
            logger.addHandler(opened(own, f"{subsystem}_{name[2:]}", frozenset(), {name: logging.INFO}))
            level = min(level, logging.INFO)
        logger.setLevel(level)
    credentials = logging.getLogger(_CREDENTIALS)
    former += credentials.handlers
    credentials.handlers[:] = []
    if daemon == "schedd" and (named := config.get("CREDMON_OAUTH_LOG")) and Path(named) != path:
        credentials.addHandler(opened(Path(named), subsystem, headers, levels))
    if again:
        for each in former:
            each.close()
    for library in ("asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_not_a_cancelled_call)
    return flags


def flush_logs() -> None:
    """Write the waiting lines: call this before the process exits in a way in which Python does not."""
    for name in ("", *CATEGORIES):
        for handler in logging.getLogger(name).handlers:
            handler.flush()


def _least(verbosity: int) -> int:
    return (ALSO_ALWAYS, logging.INFO, logging.DEBUG)[verbosity]

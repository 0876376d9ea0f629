"""The host's cache of images that were pulled for jobs: shared, bounded, safe against a starter killed at any moment.

::

    CACHE/<key>.sif         an image; its modification time says when it was last used
          <key>.json        its name, for people
          <key>.lock        locked while somebody pulls it: another starter of this host waits
          pull.<key>.<pid>  what is being pulled; removed when that process is gone

Only the starter's account can write there. An image of a mutable name is pulled anew when it is a day old.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from slotwise.config import Config
from slotwise.errors import SlotwiseError
from slotwise.execution.launcher import remove_tree
from slotwise.starter.runtimes.runtime import Progress

_log = logging.getLogger(__name__)

#: How old an image of a mutable name may become before it is pulled anew, seconds.
_FRESH_S = 86400.0
#: An image that was used so short ago may not have been opened yet, seconds.
_JUST_USED_S = 60.0
#: How often a lock that another starter holds is tried, seconds.
_LOOK_S = 0.2

_Result = TypeVar("_Result")
#: Pulls an image into the file, below a directory of its own that is removed afterwards.
Pull = Callable[[Path, Progress], Awaitable[None]]


class PullFailedError(SlotwiseError):
    """An image could not be pulled; the text is the runtime's."""

    code = "pull_failed"


@dataclass(frozen=True)
class CacheSettings:
    """The knobs SLOTWISE_IMAGE_*. Times in seconds."""

    #: Empty: below EXECUTE.
    directory: str = ""
    most_mib: int = 20480
    timeout_s: float = 1200.0
    failures: int = 3
    pause_s: float = 600.0


def read_cache(config: Config) -> CacheSettings:
    """Read the knobs."""
    return CacheSettings(
        directory=config.get_str("SLOTWISE_IMAGE_CACHE").strip(),
        most_mib=config.get_int("SLOTWISE_IMAGE_CACHE_SIZE"),
        timeout_s=config.get_int("SLOTWISE_IMAGE_PULL_TIMEOUT"),
        failures=config.get_int("SLOTWISE_IMAGE_PULL_FAILURES"),
        pause_s=config.get_int("SLOTWISE_IMAGE_PULL_PAUSE"),
    )


class SharedWork(Generic[_Result]):
    """Work that all who want the same thing wait for together. It ends when nobody waits any more."""

    def __init__(self) -> None:
        self._going: dict[str, _Shared[_Result]] = {}

    async def get(
        self, key: str, start: Callable[[Progress], Coroutine[object, object, _Result]], progress: Progress
    ) -> _Result:
        """The result of the work for ``key``, which is started unless it goes on already."""
        shared = self._going.get(key)
        if shared is None:
            shared = self._going[key] = _Shared()
            shared.task = asyncio.get_running_loop().create_task(start(shared.say))
            shared.task.add_done_callback(lambda _: self._going.pop(key, None))
        return await shared.wait(progress)


@dataclass
class _Shared(Generic[_Result]):
    task: asyncio.Task[_Result] | None = None
    listeners: list[Progress] = field(default_factory=list)
    said: str = ""

    def say(self, text: str) -> None:
        self.said = text
        for listener in self.listeners:
            listener(text)

    async def wait(self, progress: Progress) -> _Result:
        assert self.task is not None
        self.listeners.append(progress)
        if self.said:
            progress(self.said)
        try:
            return await asyncio.shield(self.task)
        finally:
            self.listeners.remove(progress)
            if not self.listeners and not self.task.done():
                self.task.cancel()


class PullRecord:
    """Whether pulls keep failing here: after so many of different images in a row, none is offered for a while."""

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._failed: dict[str, str] = {}
        self._paused_until = 0.0

    def failed(self, image: str, reason: str) -> None:
        """A pull has failed."""
        self._failed[image] = reason
        if self._settings.failures and len(self._failed) >= self._settings.failures:
            self._paused_until = time.monotonic() + self._settings.pause_s

    def succeeded(self) -> None:
        """A pull has succeeded: it is not this host."""
        self._failed.clear()
        self._paused_until = 0.0

    @property
    def problem(self) -> str:
        """Why none is offered now; empty when they are. After the pause one more failure is enough."""
        if time.monotonic() >= self._paused_until or not self._failed:
            return ""
        return f"{len(self._failed)} pulls in a row have failed, the last: {list(self._failed.values())[-1]}"


class ImageCache:
    """The cache. All methods are for the event loop's thread."""

    def __init__(self, settings: CacheSettings, directory: Path) -> None:
        self._settings = settings
        self._directory = Path(settings.directory) if settings.directory else directory
        self._pulls: SharedWork[Path] = SharedWork()
        self.record = PullRecord(settings)

    async def get(self, name: str, pull: Pull, progress: Progress) -> Path:
        """The file of an image, pulled unless it is here.

        :raises PullFailedError: when it cannot be pulled.
        :raises OSError: when the cache's file system refuses.
        """
        file = self._directory / f"{_key(name)}.sif"
        if _is_usable(name, file):
            return file
        try:
            found = await self._pulls.get(name, lambda say: self._pulled(name, file, pull, say), progress)
        except PullFailedError as error:
            self.record.failed(name, str(error))
            raise
        self.record.succeeded()
        return found

    async def _pulled(self, name: str, file: Path, pull: Pull, say: Progress) -> Path:
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = await self._locked(file.with_suffix(".lock"), say)
        place = self._directory / f"pull.{file.stem}.{os.getpid()}"
        try:
            if _is_usable(name, file):  # another starter of this host was faster
                return file
            say(f"pulling {name}")
            place.mkdir(mode=0o700)
            fresh = place / "image.sif"
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    await pull(fresh, say)
            except TimeoutError:
                reason = f"{name}: not pulled in {self._settings.timeout_s:.0f} s (SLOTWISE_IMAGE_PULL_TIMEOUT)"
                raise PullFailedError(reason) from None
            fresh.chmod(0o644)
            file.with_suffix(".json").write_text(json.dumps({"name": name, "pulled": time.time()}))
            fresh.replace(file)
            say(f"pulled {name}, {file.stat().st_size >> 20} MiB")
            self._make_room(file)
            return file
        finally:
            remove_tree(place)
            os.close(lock)

    async def _locked(self, path: Path, say: Progress) -> int:
        """The lock of one image; the kernel takes it away when this process ends."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            told = False
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return fd
                except BlockingIOError:
                    if not told:
                        say("waiting for another starter of this host that pulls the image")
                        told = True
                    await asyncio.sleep(_LOOK_S)
        except BaseException:
            os.close(fd)
            raise

    def _make_room(self, kept: Path) -> None:
        """Remove images until the rest is within the bound, least recently used first. An image that a container runs
        from stays on the disk until the container has ended."""
        found = sorted(
            ((file.stat(), file) for file in self._directory.glob("*.sif")), key=lambda pair: pair[0].st_mtime
        )
        total = sum(status.st_size for status, _ in found)
        for status, file in found:
            if total <= self._settings.most_mib << 20:
                return
            if file != kept and time.time() - status.st_mtime > _JUST_USED_S:
                _log.info("removing the image %s: the cache is full", _name_of(file))
                for path in (file, file.with_suffix(".json"), file.with_suffix(".lock")):
                    path.unlink(missing_ok=True)
                total -= status.st_size

    def sweep(self) -> list[str]:
        """Remove what starters that are gone were pulling; returns what could not be removed."""
        problems: list[str] = []
        for place in self._directory.glob("pull.*.*"):
            pid = place.name.rpartition(".")[2]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                problems += remove_tree(place)
        return problems


def _key(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _is_usable(name: str, file: Path) -> bool:
    """Whether an image is here, and not too old for a name that may mean another one tomorrow. Notes its use."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        if not file.exists():
            return False
        pulled = float(json.loads(file.with_suffix(".json").read_text())["pulled"])
        if "@sha256:" in name or 0 <= time.time() - pulled < _FRESH_S:
            os.utime(file)
            return True
    return False


def _name_of(file: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads(file.with_suffix(".json").read_text())["name"])
    return file.name

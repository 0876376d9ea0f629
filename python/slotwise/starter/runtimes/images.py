"""The host's cache of images that were pulled for jobs: shared, bounded, safe against a starter killed at any moment.

::

    CACHE/<key>.sif         an image; its access time says when it was last used
          <key>.json        its name, for people
          <key>.lock        locked while somebody pulls it: another starter of this host waits
          pull.<key>.<pid>  what is being pulled; removed when that process is gone

Only the starter's account can write there. An image is the account's that has pulled it, and each account has its own:
what one has pulled, no other runs. An image of a mutable name is pulled anew when it is a day old.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.config import Config
from slotwise.errors import SlotwiseError
from slotwise.execution.keeper_spec import Identity
from slotwise.execution.launcher import remove_tree
from slotwise.starter.runtimes.runtime import REGISTRIES_OFFLINE, Probe, Progress

_log = logging.getLogger(__name__)

#: How old an image of a mutable name may become before it is pulled anew, seconds.
_FRESH_S = 86400.0
#: An image that was used so short ago may not have been opened yet, seconds.
_JUST_USED_S = 60.0
#: How often a lock that another starter holds is tried, seconds.
_LOOK_S = 0.2
#: How often what a pull takes on the disk is measured at most, seconds.
_MEASURE_S = 1.0

#: The registry of images whose names have none.
_DOCKER_HUB = "docker.io"
#: Of so many registries it is remembered that pulls have failed.
_MOST_REGISTRIES = 20

#: Words of a program that fails for this host's sake, whatever the image.
_BY_HOST = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "error during connect",
    "resource temporarily unavailable",
    "permission denied while trying to connect",
    "no space left on device",
    "disk quota exceeded",
    "input/output error",
)
#: Those of them that mean the account that runs it, where that is not the starter's: it has used up what it may have.
_BY_ACCOUNT = ("resource temporarily unavailable", "disk quota exceeded")
#: Words of one that fails for its registry's sake, or for that of the way to it.
_BY_REGISTRY = (
    "i/o timeout",
    "network is unreachable",
    "no route to host",
    "connection refused",
    "connection reset",
    "temporary failure in name resolution",
    # The one registry that is certainly there; another name that is not found may be a mistake of the job's.
    "lookup registry-1.docker.io",
    "lookup auth.docker.io",
    "lookup index.docker.io",
    "server misbehaving",
    "tls handshake timeout",
    "toomanyrequests",
    "too many requests",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "gateway time-out",
    "context deadline exceeded",
    "no answer in",
    "not pulled in",
)
#: The starter itself, as who pulls.
STARTER = Identity()
_AUTO, _HOLD, _REQUEUE = "auto", "hold", "requeue"

_Result = TypeVar("_Result")
#: Pulls an image into the file, below a directory of its own that is removed afterwards.
Pull = Callable[[Path, Progress], Awaitable[None]]


class PullFailedError(SlotwiseError):
    """An image could not be pulled; the text is the runtime's."""

    code = "pull_failed"


class CacheSettings(Struct, frozen=True):
    """The knobs SLOTWISE_IMAGE_*. Times in seconds."""

    #: Empty: below EXECUTE.
    directory: str = ""
    most_mib: int = 20480
    timeout_s: float = 1200.0
    failures: int = 3
    pause_s: float = 600.0
    #: SLOTWISE_IMAGE_PULL_FAILURE_ACTION: hold the job, requeue it, or auto: by whose failure it is.
    on_failure: str = _AUTO


def read_cache(config: Config) -> CacheSettings:
    """Read the knobs."""
    return CacheSettings(
        directory=config.get_str("SLOTWISE_IMAGE_CACHE").strip(),
        most_mib=config.get_int("SLOTWISE_IMAGE_CACHE_SIZE"),
        timeout_s=config.get_int("SLOTWISE_IMAGE_PULL_TIMEOUT"),
        failures=config.get_int("SLOTWISE_IMAGE_PULL_FAILURES"),
        pause_s=config.get_int("SLOTWISE_IMAGE_PULL_PAUSE"),
        on_failure=_action(config),
    )


def _action(config: Config) -> str:
    knob = "SLOTWISE_IMAGE_PULL_FAILURE_ACTION"
    word = config.get_text(knob).strip().lower()
    if word not in (_AUTO, _HOLD, _REQUEUE):
        _log.warning("%s = %s is none of auto, hold, requeue: it is taken for auto", knob, word)
        return _AUTO
    return word


def is_host_failure(words: str) -> bool:
    """Whether it is this host that failed, or its way to the registry: another one may do better."""
    lower = words.lower()
    return _is_by_host(words) or any(failure in lower for failure in _BY_REGISTRY)


def _is_by_host(words: str) -> bool:
    lower = words.lower()
    return any(failure in lower for failure in _BY_HOST)


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


class _Shared(Struct, Generic[_Result]):
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
    """Whether pulls keep failing here: after so many of different images in a row, none is offered for a while. What a
    registry fails, or the way to it, closes this registry alone: whoever names three that do not exist takes no slot
    away from others.

    An image that its registry does not have says nothing about the host, and does not count.
    """

    def __init__(self, settings: CacheSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        #: Images whose pulls have failed since one succeeded, by registry; those that the host itself failed: by "".
        self._failed: dict[str, dict[str, str]] = {}
        #: Until when no pulls are offered, by registry.
        self._paused: dict[str, float] = {}

    def failed(self, image: str, reason: str, *, of_account: bool = False) -> None:
        """A pull has failed.

        :param of_account: an account of jobs has pulled, whose limits are not the host's.
        """
        if not is_host_failure(reason):
            return
        if of_account and any(words in reason.lower() for words in _BY_ACCOUNT):
            return
        key = "" if _is_by_host(reason) else registry_of(image)
        failed = self._failed.pop(key, {}) | {image: reason}
        self._failed[key] = failed
        if self._settings.failures and len(failed) >= self._settings.failures:
            self._paused[key] = self._monotonic() + self._settings.pause_s
        while len(self._failed) > _MOST_REGISTRIES:
            oldest = next(one for one in self._failed if one)
            self._paused.pop(oldest, None)
            del self._failed[oldest]

    def succeeded(self, image: str) -> None:
        """A pull has succeeded: it is neither this host nor the registry."""
        for key in ("", registry_of(image)):
            self._failed.pop(key, None)
            self._paused.pop(key, None)

    def sends_away(self, reason: str) -> bool:
        """Whether a job whose image could not be pulled goes to another slot; it is held otherwise."""
        if self._settings.on_failure == _AUTO:
            return is_host_failure(reason)
        return self._settings.on_failure == _REQUEUE

    @property
    def problem(self) -> str:
        """Why none is offered now; empty when they are. After the pause one more failure is enough."""
        return self._problem("")

    @property
    def offline(self) -> dict[str, str]:
        """The registries from which none is offered now, and why."""
        return {key: why for key in sorted(self._paused) if key and (why := self._problem(key))}

    def _problem(self, key: str) -> str:
        failed = self._failed.get(key)
        if not failed or self._monotonic() >= self._paused.get(key, 0.0):
            return ""
        return f"{len(failed)} pulls in a row have failed, the last: {list(failed.values())[-1]}"

    def withdrawn(self, offer: Probe) -> Probe:
        """A runtime's offer less the registries that are closed here."""
        if not offer.works or not self.offline:
            return offer
        attributes = {**offer.attributes, REGISTRIES_OFFLINE: ", ".join(self.offline)}
        gaps = [f"images are not pulled from {registry}: {why}" for registry, why in self.offline.items()]
        return replace(offer, attributes=attributes, gaps=(*offer.gaps, *gaps))


def registry_of(image: str) -> str:
    """The registry of an image, as ``docker://`` and the like and Docker itself name it."""
    path = image.partition("://")[2] or image
    host, slash, _ = path.partition("/")
    named = bool(slash) and ("." in host or ":" in host or host == "localhost")
    host = host.lower() if named else _DOCKER_HUB
    return _DOCKER_HUB if host in ("index.docker.io", "registry-1.docker.io") else host


class ImageCache:
    """The cache. All methods are for the event loop's thread."""

    def __init__(self, settings: CacheSettings, directory: Path) -> None:
        self._settings = settings
        self._directory = Path(settings.directory) if settings.directory else directory
        self._pulls: SharedWork[Path] = SharedWork()
        self.record = PullRecord(settings)

    async def get(self, name: str, pull: Pull, progress: Progress, identity: Identity = STARTER) -> Path:
        """The file of an image, pulled unless it is here.

        :param identity: the account that pulls it, and whose image it is from then on: other accounts do not run what
            this one has had in its hands. Without a uid it is the starter that pulls, for all.
        :raises PullFailedError: when it cannot be pulled.
        :raises OSError: when the cache's file system refuses.
        """
        key = _key(name, identity.uid)
        file = self._directory / f"{key}.sif"
        if _is_usable(name, file):
            return file
        try:
            found = await self._pulls.get(key, lambda say: self._pulled(name, file, pull, say, identity), progress)
        except PullFailedError as error:
            self.record.failed(name, str(error), of_account=identity.uid is not None)
            raise
        self.record.succeeded(name)
        return found

    async def _pulled(self, name: str, file: Path, pull: Pull, say: Progress, identity: Identity) -> Path:
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = await self._locked(file.with_suffix(".lock"), say)
        place = self._directory / f"pull.{file.stem}.{os.getpid()}"
        try:
            if _is_usable(name, file):  # another starter of this host was faster
                return file
            say(f"pulling {name}")
            place.mkdir(mode=0o700)
            if identity.uid is not None:
                os.chown(place, identity.uid, identity.uid if identity.gid is None else identity.gid)
            fresh = place / "image.sif"
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    await self._within_bound(name, place, pull(fresh, say))
            except TimeoutError:
                reason = f"{name}: not pulled in {self._settings.timeout_s:.0f} s (SLOTWISE_IMAGE_PULL_TIMEOUT)"
                raise PullFailedError(reason) from None
            _take(fresh, file, name, identity.uid)
            file.with_suffix(".json").write_text(json.dumps({"name": name, "pulled": time.time()}))
            say(f"pulled {name}, {file.stat().st_size >> 20} MiB")
            self._make_room(file)
            return file
        finally:
            remove_tree(place)
            os.close(lock)

    async def _within_bound(self, name: str, place: Path, work: Awaitable[None]) -> None:
        """Do a pull. One that fills the disk is given up: a few bytes of an image can unpack to any number."""
        most = 2 * self._settings.most_mib << 20  # what is unpacked, and what is made of it
        task = asyncio.ensure_future(work)
        wait_s = _MEASURE_S
        try:
            while not (await asyncio.wait({task}, timeout=wait_s))[0]:
                began = time.monotonic()
                taken = await asyncio.get_running_loop().run_in_executor(None, _bytes_below, place)
                wait_s = max(_MEASURE_S, 10 * (time.monotonic() - began))
                if taken > most:
                    limit = f"twice SLOTWISE_IMAGE_CACHE_SIZE = {self._settings.most_mib} MiB"
                    raise PullFailedError(f"{name} takes more than {limit} while it is pulled")
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

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
            ((file.stat(), file) for file in self._directory.glob("*.sif")), key=lambda pair: pair[0].st_atime
        )
        total = sum(status.st_size for status, _ in found)
        for status, file in found:
            if total <= self._settings.most_mib << 20:
                return
            if file != kept and time.time() - status.st_atime > _JUST_USED_S:
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


def _bytes_below(top: Path) -> int:
    """What the files below a directory take on the disk."""
    total = 0
    for place, _, files in os.walk(top):
        for file in files:
            with contextlib.suppress(OSError):  # it is gone again
                total += os.lstat(f"{place}/{file}").st_blocks * 512
    return total


def _take(fresh: Path, file: Path, name: str, uid: int | None) -> None:
    """Put an image that has been pulled into the cache, as the starter's own file.

    :param uid: the account that has pulled it, in a directory of its own; None: the starter.
    :raises PullFailedError: when that account has put something else there.
    :raises OSError: when there is none.
    """
    descriptor = os.open(fresh, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        is_own = about.st_uid == (os.geteuid() if uid is None else uid) and about.st_nlink == 1
        if not stat.S_ISREG(about.st_mode) or not is_own:
            raise PullFailedError(f"{name}: what was pulled is no image file")
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)
    fresh.replace(file)
    found = file.lstat()
    if (found.st_dev, found.st_ino) != (about.st_dev, about.st_ino):
        file.unlink()
        raise PullFailedError(f"{name}: what was pulled has been exchanged")


def _key(name: str, uid: int | None = None) -> str:
    whose = "" if uid is None else f"{uid}\0"
    return hashlib.sha256(f"{whose}{name}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _is_usable(name: str, file: Path) -> bool:
    """Whether an image is here, and not too old for a name that may mean another one tomorrow. Notes its use."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        if not file.exists():
            return False
        pulled = float(json.loads(file.with_suffix(".json").read_text())["pulled"])
        if "@sha256:" in name or 0 <= time.time() - pulled < _FRESH_S:
            os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))  # the other one is the image's
            return True
    return False


def _name_of(file: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads(file.with_suffix(".json").read_text())["name"])
    return file.name

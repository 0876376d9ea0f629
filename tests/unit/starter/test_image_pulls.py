"""What becomes of jobs and of slots when images cannot be pulled, and who tests an image file that many want."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.runtimes import images
from slotwise.starter.runtimes.images import (
    CacheSettings,
    ImageCache,
    PullFailedError,
    PullRecord,
    read_cache,
    registry_of,
)
from slotwise.starter.runtimes.runtime import Probe, Progress

from tests.support import host

AWAY = "docker pull: dial tcp 10.0.0.1:443: connect: connection refused"
FULL = "docker pull: no space left on device"
ABSENT = "docker pull: manifest for debian:none not found: manifest unknown"


@pytest.mark.parametrize(
    ("action", "reason", "elsewhere"),
    [
        ("auto", AWAY, True),
        ("auto", ABSENT, False),
        ("auto", "received unexpected HTTP status: 503 Service Unavailable", True),
        ("auto", "docker pull: no answer in 60 s", True),
        ("hold", AWAY, False),
        ("requeue", ABSENT, True),
    ],
)
def test_a_job_whose_image_cannot_be_pulled_is_held_or_goes_elsewhere(
    action: str, reason: str, *, elsewhere: bool
) -> None:
    assert PullRecord(CacheSettings(on_failure=action)).sends_away(reason) is elsewhere


def test_images_that_do_not_exist_take_no_slot_away_and_hosts_that_cannot_pull_do() -> None:
    record = PullRecord(CacheSettings(failures=3))
    for number in range(5):
        record.failed(f"absent:{number}", ABSENT)
    assert record.problem == ""
    for _ in range(3):
        record.failed("same:1", FULL)
    assert record.problem == "", "one image is not three"
    record.failed("second:1", FULL)
    record.failed("dead.example/third:1", FULL)
    assert record.problem.startswith("3 pulls in a row have failed, the last: docker pull: no space left")
    record.succeeded("any:1")
    assert record.problem == ""


def test_registries_that_are_away_close_themselves_and_nobody_elses_pulls() -> None:
    now = 0.0
    record = PullRecord(CacheSettings(failures=3, pause_s=600), lambda: now)
    offer = Probe(works=True, attributes={"HasDocker": True})
    for number in range(3):
        record.failed(f"dead{number}.example/image:1", AWAY)
    assert record.withdrawn(offer) == offer, "each has failed once"
    for number in range(3):
        record.failed(f"docker://Dead.example:5000/image:{number}", AWAY)
        record.failed(f"image:{number}", AWAY)
    assert record.problem == "" and list(record.offline) == ["dead.example:5000", "docker.io"]
    withdrawn = record.withdrawn(offer)
    assert withdrawn.attributes["ContainerRegistriesOffline"] == "dead.example:5000, docker.io"
    assert withdrawn.attributes["HasDocker"] is True and "images are not pulled from docker.io" in withdrawn.gaps[1]
    record.succeeded("docker.io/other")
    assert list(record.offline) == ["dead.example:5000"]
    now = 601.0
    assert record.offline == {}
    record.failed("dead.example:5000/image:9", AWAY)
    assert list(record.offline) == ["dead.example:5000"], "after the pause one more is enough"
    for number in range(100):
        record.failed(f"dead{number}.example/image:1", AWAY)
    assert record.offline == {}, "there is a bound"


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("debian", "docker.io"),
        ("debian:12", "docker.io"),
        ("docker://user/image", "docker.io"),
        ("index.docker.io/user/image", "docker.io"),
        ("oras://Host.example/a/b:1", "host.example"),
        ("localhost/a", "localhost"),
        ("127.0.0.1:5000/a@sha256:00", "127.0.0.1:5000"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


@pytest.mark.parametrize(("text", "action"), [("", "auto"), ("REQUEUE", "requeue"), ("hold", "hold"), ("go", "auto")])
def test_the_knob(tmp_path: Path, text: str, action: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "config").write_text(f"SLOTWISE_IMAGE_PULL_FAILURE_ACTION = {text}\n" if text else "")
    assert read_cache(load(str(tmp_path / "config"), env={}, cwd=tmp_path)).on_failure == action
    assert ("is none of auto, hold, requeue" in caplog.text) == (text == "go")


async def test_all_who_wait_for_a_pull_hear_of_it_and_of_its_failure(tmp_path: Path) -> None:
    cache = ImageCache(CacheSettings(failures=1), tmp_path / "images")
    began, fail = asyncio.Event(), asyncio.Event()
    pulls = []

    async def pull(file: Path, say: Progress) -> None:
        pulls.append(file)
        say("half of it")
        began.set()
        await fail.wait()
        raise PullFailedError(AWAY)

    heard: list[list[str]] = [[], [], []]

    def listener(number: int) -> Callable[[str], None]:
        return lambda text: heard[number].append(text)

    waiting = [asyncio.create_task(cache.get("docker://x", pull, listener(number))) for number in range(3)]
    await began.wait()
    fail.set()
    for found in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(found, PullFailedError) and str(found) == AWAY
    assert len(pulls) == 1 and all(lines[-1] == "half of it" for lines in heard)
    assert "connection refused" in cache.record.offline["docker.io"]
    assert not list((tmp_path / "images").glob("pull.*")), "nothing is left of it"


async def test_the_use_of_an_image_is_noted_without_changing_it(tmp_path: Path) -> None:
    cache = ImageCache(CacheSettings(), tmp_path)

    async def pull(file: Path, _say: Progress) -> None:
        file.write_text("image")

    file = await cache.get("docker://x", pull, lambda _said: None)
    os.utime(file, (1, 2))
    assert await cache.get("docker://x", pull, lambda _said: None) == file
    assert file.stat().st_mtime == 2 and file.stat().st_atime > 1e9


async def test_an_image_that_unpacks_to_more_than_the_cache_may_hold_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_MEASURE_S", 0.01)
    cache = ImageCache(CacheSettings(most_mib=1), tmp_path)

    async def pull(file: Path, _: Progress) -> None:
        for number in range(1000):
            (file.parent / f"layer{number}").write_bytes(b"x" * 65536)
            await asyncio.sleep(0.001)
        file.write_bytes(b"image")

    with pytest.raises(PullFailedError, match="more than twice SLOTWISE_IMAGE_CACHE_SIZE = 1 MiB") as caught:
        await cache.get("docker://bomb:1", pull, lambda _: None)
    assert not cache.record.sends_away(str(caught.value)), "it is the image's failure"
    assert not list(tmp_path.glob("pull.*")) and not list(tmp_path.glob("*.sif"))


def test_what_an_account_has_used_up_closes_the_host_to_nobody() -> None:
    record = PullRecord(CacheSettings(failures=1))
    for reason in ("fork: Resource temporarily unavailable", "write image: disk quota exceeded"):
        record.failed("docker://x:1", reason, of_account=True)
        assert not record.problem
    record.failed("docker://x:1", "no space left on device", of_account=True)
    assert record.problem


@host.needs(host.root)
@pytest.mark.parametrize("trick", ["", "link", "hard link", "pipe", "another's", "directory"])
async def test_an_account_puts_nothing_of_others_into_the_cache(tmp_path: Path, trick: str) -> None:
    """What it has put in the image's place is not taken, whatever it is."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    cache, who = ImageCache(CacheSettings(), tmp_path / "images"), Identity(uid=65534, gid=65534)

    async def pull(file: Path, _say: Progress) -> None:
        assert (file.parent.stat().st_uid, file.parent.stat().st_mode & 0o777) == (65534, 0o700)
        match trick:
            case "link":
                file.symlink_to(secret)
            case "hard link":
                file.hardlink_to(secret)
            case "pipe":
                os.mkfifo(file)
            case "directory":
                file.mkdir()
            case _:
                file.write_text("image")
        if trick not in ("another's", "hard link", "link"):
            os.chown(file, 65534, 65534)

    def got(identity: Identity) -> Awaitable[Path]:
        return cache.get("docker://x", pull, lambda _said: None, identity)

    if trick:
        with pytest.raises((PullFailedError, OSError)):
            await got(who)
        assert not list((tmp_path / "images").glob("*.sif"))
    else:
        file = await got(who)
        assert (file.stat().st_uid, file.stat().st_mode & 0o777, file.read_text()) == (0, 0o644, "image")
        with pytest.raises(AssertionError):  # another account pulls its own
            await got(Identity(uid=65533, gid=65533))
    assert (secret.stat().st_uid, secret.stat().st_mode & 0o777, secret.read_text()) == (0, 0o600, "hunter2")

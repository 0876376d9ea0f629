"""Jobs as their event log records them, without asking a daemon (``q -userlog``, ``history -userlog``, ``wait``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.values import number, whole
from slotwise.errors import NotFoundError

_HEAD = re.compile(
    r"^(\d{3}) \((\d+)\.(\d+)\.(\d+)\) (\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|\d\d/\d\d \d\d:\d\d:\d\d)\S* ?(.*)"
)
_HOST = re.compile(r"<([^<>]*+)>")
SUBMIT, EXECUTE, EVICTED, TERMINATED, SHADOW_EXCEPTION, ABORTED = 0, 1, 4, 5, 7, 9
SUSPENDED, UNSUSPENDED, HELD, RELEASED, DISCONNECTED, RECONNECT_FAILED = 10, 11, 12, 13, 22, 24
IMAGE_SIZE = 6


class Event(Struct, frozen=True):
    """One entry: its number, the job, when (seconds since the epoch), and its text."""

    number: int
    cluster: int
    proc: int
    at: float
    title: str
    lines: tuple[str, ...]

    @classmethod
    def parse(cls, entry: str) -> Event | None:
        """From the text between two lines of three dots; None when it is not an event."""
        first, *lines = entry.strip("\r\n").splitlines() or [""]
        found = _HEAD.match(first)
        if found is None:
            return None
        number, cluster, proc = (int(found[n]) for n in (1, 2, 3))
        return cls(number, cluster, proc, _moment(found[5]), found[6], tuple(line.strip() for line in lines))


def _moment(text: str) -> float:
    if text[2] == "/":  # the older form has no year
        text = f"{datetime.now().year}-{text[:2]}-{text[3:]}"
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def events(path: Path) -> Iterator[Event]:
    """The events of a log, in order.

    :raises NotFoundError: when it cannot be read.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise NotFoundError(f"cannot read the event log {path}: {error.strerror}") from None
    for entry in re.split(r"^\.\.\.\s*$", text, flags=re.MULTILINE):
        event = Event.parse(entry)
        if event is not None:
            yield event


def job_ads(path: Path, *, left: bool, owner: str = "") -> list[ClassAd]:
    """What the log knows of its jobs: those in the queue, or with ``left`` those that have left it."""
    jobs: dict[tuple[int, int], ClassAd] = {}
    for event in events(path):
        key = (event.cluster, event.proc)
        ad = jobs.get(key)
        if ad is None:
            ad = jobs[key] = ClassAd(
                {"ClusterId": event.cluster, "ProcId": event.proc, "JobStatus": 1, "QDate": int(event.at)}
            )
            ad["UserLog"] = str(path)
            if owner:
                ad["Owner"] = owner
        _apply(ad, event)
    return [ad for ad in jobs.values() if (ad["JobStatus"] in (3, 4)) == left]


def _apply(ad: ClassAd, event: Event) -> None:
    status = {
        SUBMIT: 1, EXECUTE: 2, EVICTED: 1, TERMINATED: 4, SHADOW_EXCEPTION: 1, ABORTED: 3, SUSPENDED: 7,
        UNSUSPENDED: 2, HELD: 5, RELEASED: 1, RECONNECT_FAILED: 1,
    }.get(event.number)  # fmt: skip
    if event.number == IMAGE_SIZE:
        _image_size(ad, event)
    if status is None:
        return
    if ad["JobStatus"] == 2 and status != 7:
        ran_s = event.at - number(ad.get("ShadowBday"), event.at)
        ad["RemoteWallClockTime"] = number(ad.get("RemoteWallClockTime")) + ran_s
    ad["JobStatus"] = status
    ad["EnteredCurrentStatus"] = int(event.at)
    if event.number == SUBMIT:
        ad["QDate"] = int(event.at)
    elif event.number == EXECUTE:
        found = _HOST.search(event.title)
        slot = next((line.partition(":")[2].strip() for line in event.lines if line.startswith("SlotName:")), "")
        ad["RemoteHost"] = slot or (found[1] if found else "")
        ad["ShadowBday"] = ad["JobCurrentStartDate"] = int(event.at)
        ad["NumJobStarts"] = whole(ad.get("NumJobStarts")) + 1
    elif event.number == HELD:
        _held(ad, event)
    elif status in (3, 4):
        ad["CompletionDate"] = int(event.at)
        _ended(ad, event)


def _image_size(ad: ClassAd, event: Event) -> None:
    found = re.search(r"(?<!\d)(\d++)\s*+$", event.title)
    if found:
        ad["ImageSize"] = int(found[1])
    for line in event.lines:
        if (used := re.match(r"(\d+)\s+-\s+(MemoryUsage|ResidentSetSize)", line)) is not None:
            ad[used[2]] = int(used[1])


def _held(ad: ClassAd, event: Event) -> None:
    ad["HoldReason"] = event.lines[0] if event.lines else ""
    codes = re.search(r"Code (\d+) Subcode (\d+)", " ".join(event.lines))
    if codes:
        ad["HoldReasonCode"], ad["HoldReasonSubCode"] = int(codes[1]), int(codes[2])


def _ended(ad: ClassAd, event: Event) -> None:
    text = " ".join(event.lines)
    if (code := re.search(r"return value (-?\d+)", text)) is not None:
        ad["ExitCode"], ad["ExitBySignal"] = int(code[1]), False
    elif (signal := re.search(r"\(signal (\d+)\)", text)) is not None:
        ad["ExitSignal"], ad["ExitBySignal"] = int(signal[1]), True
    if event.number == ABORTED and event.lines:
        ad["RemoveReason"] = event.lines[0]

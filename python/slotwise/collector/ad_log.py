"""The file that keeps the ads of machines that are off, in the form of HTCondor's COLLECTOR_PERSISTENT_AD_LOG.

A log of changes, a line each: ``101 KEY MyType TargetType`` (an ad begins), ``103 KEY NAME EXPRESSION``,
``104 KEY NAME`` (an attribute is removed), ``102 KEY`` (an ad is removed), ``105`` and ``106`` (a transaction begins
and ends), ``107 NUMBER CreationTimestamp SECONDS`` (at the top). A pool can change from HTCondor to Slotwise, and back,
with the same file.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slotwise import durable_files
from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.classad.stream import parse_ads
from slotwise.errors import ConfigError, SlotwiseError

_log = logging.getLogger(__name__)
_NEW, _DESTROY, _SET, _DELETE, _BEGIN, _END, _SEQUENCE = "101", "102", "103", "104", "105", "106", "107"
#: Lines of changes, beyond those of the ads themselves, until the file is rewritten.
_SPARE_LINES = 20_000
_Attributes = dict[str, tuple[str, str]]


class AdLog:
    """The file and the ads in it, by name.

    :raises ConfigError: the file cannot be read or created.
    """

    def __init__(self, path: Path, now: float) -> None:
        self.path = path
        self._began = int(now)
        self._lines = 0
        try:
            self.ads = self._read()
            self._rewrite()
        except OSError as error:
            raise ConfigError(
                f"COLLECTOR_PERSISTENT_AD_LOG: cannot use {path}: {error.strerror}",
                hint="name a file that the collector may read and write",
                key="COLLECTOR_PERSISTENT_AD_LOG",
            ) from None

    def put(self, ads: Mapping[str, ClassAd]) -> None:
        """Replace the ads of these names. The new ones are on disk when this returns."""
        text = "".join(_lines_of(name, ad, known=name in self.ads) for name, ad in ads.items())
        self.ads.update(ads)
        self._write(text)

    def remove(self, names: list[str]) -> None:
        """Remove these ads."""
        there = [name for name in names if self.ads.pop(name, None) is not None]
        self._write("".join(f"{_DESTROY} {key_of(name)}\n" for name in there))

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._lines > _SPARE_LINES + sum(len(ad) for ad in self.ads.values()):
            self._rewrite()
            return
        self._append(f"{_BEGIN} \n{text}{_END} \n")

    def _append(self, text: str) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._lines += text.count("\n")

    def _rewrite(self) -> None:
        """Rewrite the file with the present ads alone."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.unlink(missing_ok=True)
        self.path, former = fresh, self.path
        self._lines = 0
        try:
            head = f"{_SEQUENCE} 1 CreationTimestamp {self._began}\n"
            ads = "".join(_lines_of(name, ad, known=False) for name, ad in self.ads.items())
            self._append(f"{head}{_BEGIN} \n{ads}{_END} \n" if ads else head)
            durable_files.replace(fresh, former)
        finally:
            self.path = former

    def _read(self) -> dict[str, ClassAd]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return {}
        # Not splitlines(): texts may contain characters that it takes for the end of a line.
        *lines, torn = text.split("\n")
        found, faults = _replayed(lines, str(self.path))
        if torn.strip():
            _log.warning("%s ends in the middle of a line: what was being written then is not kept", self.path)
        ads = {}
        for key, attributes in found.items():
            try:
                text_of = "".join(f"{name} = {value}\n" for name, value in attributes.values())
                ad = next(parse_ads(text_of, format="old"), ClassAd())
                name = ad.eval("Name")
            except (SlotwiseError, ValueError) as error:
                faults.append(f"the ad {key}: {error}")
                continue
            ads[name if isinstance(name, str) and name else key.strip("<>")] = ad
        if faults:
            aside = self.path.with_name(f"{self.path.name}.unreadable")
            aside.write_text(text, encoding="utf-8", errors="surrogateescape")
            for fault in faults[:10]:
                _log.error("cannot use %s", fault)
            _log.error(
                "%d lines or ads of %s cannot be used; the file as it was is in %s", len(faults), self.path, aside
            )
        return ads


def key_of(name: str) -> str:
    """The key of an ad in the file."""
    return "<" + re.sub(r"\s", "", name) + ">"


def _lines_of(name: str, ad: ClassAd, *, known: bool) -> str:
    key = key_of(name)
    lines = [f"{_DESTROY} {key}"] if known else []
    lines.append(f"{_NEW} {key} Machine (empty)")
    for line in long_form(ad).split("\n"):
        attribute, equals, value = line.partition(" = ")
        if equals:
            lines.append(f"{_SET} {key} {attribute} {value}")
    return "\n".join(lines) + "\n"


def _replayed(lines: list[str], path: str) -> tuple[dict[str, _Attributes], list[str]]:
    """The attributes of each ad, by name in lower case, and the lines that cannot be read."""
    ads: dict[str, _Attributes] = {}
    faults: list[str] = []
    pending: list[tuple[int, list[str]]] | None = None
    for number, words in _operations(lines):
        if words[0] == _BEGIN:
            pending = []
        elif words[0] == _END:
            for place, change in pending or ():
                _apply(ads, change, f"{path}:{place}", faults)
            pending = None
        elif pending is not None:
            pending.append((number, words))
        else:
            _apply(ads, words, f"{path}:{number}", faults)
    if pending:
        _log.warning("%s ends in the middle of a transaction: it is not kept", path)
    return ads, faults


def _operations(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        words = line.split(" ", 3)
        if words[0]:
            yield number, words


def _apply(ads: dict[str, _Attributes], words: list[str], place: str, faults: list[str]) -> None:
    match words:
        case ["101", key, *_]:
            ads[key] = {}
        case ["102", key]:
            ads.pop(key, None)
        case ["103", key, name, value] if key in ads:
            ads[key][name.lower()] = (name, value)
        case ["104", key, name] if key in ads:
            ads[key].pop(name.lower(), None)
        case ["107", *_]:
            pass
        case _:
            faults.append(f"{place}: {' '.join(words)[:80]!r} is not a change of an ad")

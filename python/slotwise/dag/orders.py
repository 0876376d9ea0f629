"""X.orders: what a user orders of a DAG that runs, such as to run a failed node once more.

The commands append lines, the runner reads them. An order has an id. The runner carries it out by an entry with that id
in the nodes log, from which its state follows, and does nothing about an id that is there: whenever it is
killed, an order is neither lost nor carried out twice.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from slotwise import durable_files
from slotwise.errors import HostError
from slotwise.transfer import safe_open

#: The longest file that is read, in bytes.
_MOST = 16 << 20
_LINE = re.compile(r"(\d+) ([0-9a-f]{12}) (retry|skip|resume)(?: (\S+))?")


class Do(StrEnum):
    """What is ordered."""

    RETRY = "retry"
    SKIP = "skip"
    RESUME = "resume"


class Order(Struct, frozen=True):
    """One order. ``node``: the name of a node; "" for the DAG. ``cluster``: of the DAG's job for which it is meant."""

    cluster: int
    id: str
    do: Do
    node: str = ""


def file_name(primary: str) -> str:
    """The file of a DAG, by its first file."""
    return f"{primary}.orders"


def new(cluster: int, do: Do, nodes: Iterable[str] = ("",)) -> list[Order]:
    """Orders with ids of their own."""
    return [Order(cluster, secrets.token_hex(6), do, node) for node in nodes]


def give(path: Path, orders: Iterable[Order]) -> None:
    """Append orders to a DAG's file.

    :raises HostError: it cannot be written.
    """
    lines = [f"{one.cluster} {one.id} {one.do}{' ' if one.node else ''}{one.node}\n" for one in orders]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, "".join(lines).encode(errors="surrogateescape"))
        finally:
            os.close(fd)
        durable_files.flush([str(path)])
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror}", hint="a DAG's owner gives its orders") from None


class OrderFile(Struct):
    """A DAG's file as its runner reads it.

    :ivar cluster: of the DAG's job; orders for others were of former runs.
    :ivar dealt_with: ids of orders that are in the nodes log.
    :ivar distrust: why the file is not followed; "" if it is.
    """

    path: Path
    cluster: int
    dealt_with: set[str] = field(default_factory=set)
    distrust: str = ""
    _read: int = 0

    def take(self) -> Iterator[Order]:
        """Orders that came since the last call and have not been dealt with."""
        try:
            fd = safe_open.regular(str(self.path))
        except OSError:
            return
        try:
            about = os.fstat(fd)
            self.distrust = _distrust(about)
            if self.distrust or about.st_size <= self._read or about.st_size > _MOST:
                return
            text = os.pread(fd, about.st_size - self._read, self._read)
        finally:
            os.close(fd)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="surrogateescape").splitlines():
            found = _LINE.fullmatch(line)
            if found is not None and int(found[1]) == self.cluster and found[2] not in self.dealt_with:
                self.dealt_with.add(found[2])
                yield Order(self.cluster, found[2], Do(found[3]), found[4] or "")


def _distrust(about: os.stat_result) -> str:
    if about.st_uid != os.geteuid():
        return "it is another account's"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it"
    return ""


__all__ = ["Do", "Order", "OrderFile", "file_name", "give", "new"]

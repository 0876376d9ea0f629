"""Names of images, and which of those that jobs have pulled are removed. Pure.

An image that a job's user has pulled has a second name, ``htcondor.org/USER/IMAGE``, as in HTCondor: this user may use
it. One that was not here before has a third one, ``htcondor.org/slotwise.pulled/IMAGE``: it may be removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

_OURS = "htcondor.org/"
_PORT = "__"
_SIZE = re.compile("[0-9]{1,18}")
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
#: What an image's name begins with and is made of: an option, a blank or a pattern for many images is none.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_PULLED = f"{_OURS}slotwise.pulled/"


def normalized(image: str) -> str:
    """The image's name as Docker lists it: without ``docker://``, with ``:latest`` if it has neither tag nor digest."""
    image = image.removeprefix("docker://")
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def is_name(image: str) -> bool:
    """Whether Docker would take a (normalized) image's name for one: it follows options on command lines."""
    return _NAME.fullmatch(image) is not None


def marked(image: str, user: str) -> str:
    """The second name of a (normalized) image that a job of ``user`` (``user@domain``) has pulled."""
    return f"{_OURS}{_part(user.replace('@', '_at_'))}/{_nested(image)}"


def pulled(image: str) -> str:
    """The third name of a (normalized) image that was not here before a job pulled it."""
    return f"{_PULLED}{_nested(image)}"


def _part(name: str) -> str:
    """A name as a part of an image's, in which only small letters, digits and single separators may be."""
    return name if _PART.fullmatch(name) else f"x{name.encode('utf-8', 'surrogateescape').hex()}"


def _nested(image: str) -> str:
    """An image's name as the end of another one: without the colon of a registry's port, and without a digest."""
    host, slash, rest = image.partition("/")
    if slash and ":" in host:
        host = host.replace(":", _PORT)
    return f"{host}{slash}{rest}".replace("@sha256:", ":sha256-")


def original(name: str) -> str:
    """The image's own name from its second one; empty when it is not ours, or was pulled by its digest."""
    if not name.startswith(_OURS):
        return ""
    image = name.removeprefix(_OURS).partition("/")[2]
    if ":sha256-" in image:
        return ""
    host, slash, rest = image.partition("/")
    return f"{host.replace(_PORT, ':') if slash else host}{slash}{rest}"


class Image(Struct, frozen=True):
    """An image as the daemon lists it, once for each of its names."""

    name: str
    id: str
    size: int = 0
    #: When it was last tagged, as ISO 8601, which orders as text: each start of a job tags it again.
    used: str = ""

    @property
    def ours(self) -> bool:
        """Whether the name is one that we have given."""
        return self.name.startswith(_OURS)

    @property
    def pulled(self) -> bool:
        """Whether the name says that the image was not here before a job pulled it."""
        return self.name.startswith(_PULLED)


def parse_listing(lines: Iterable[str], details: Mapping[str, tuple[str, int]]) -> list[Image]:
    """Images from lines ``NAME:TAG ID``; ``details`` has time of use and size by id."""
    found = []
    for line in lines:
        name, _, id_ = line.strip().partition(" ")
        used, size = details.get(_bare(id_), ("", 0))
        if id_ and "<none>" not in name:
            found.append(Image(name, id_, size, used))
    return found


def parse_details(text: str) -> dict[str, tuple[str, int]]:
    """Time of use and size by id, from lines ``ID SIZE TIME`` (the time may have blanks)."""
    found = {}
    for line in text.splitlines():
        id_, size, used = (*line.split(" ", 2), "", "")[:3]
        if _SIZE.fullmatch(size):
            found[_bare(id_)] = (used, int(size))
    return found


def _bare(id_: str) -> str:
    """An id as podman and Docker agree on it."""
    return id_.removeprefix("sha256:")


def cached_bytes(images: Iterable[Image]) -> int:
    """Bytes of all images that were not here before jobs pulled them."""
    return sum({image.id: image.size for image in images if image.pulled}.values())


def to_remove(images: Collection[Image], keep: int, in_use: Collection[str]) -> list[list[str]]:
    """The names of each image that goes so that at most ``keep`` of those that we pulled are left, least recently used
    first. A name is removed with the image's own name.

    :param in_use: images that containers were made from, by their own names.
    """
    mine = {image.id: image.used for image in images if image.pulled}
    names: dict[str, list[str]] = {id_: [] for id_ in mine}
    for image in images:
        if image.id in mine and image.ours:
            names[image.id] += [name for name in (image.name, original(image.name)) if name]
    free = [id_ for id_ in mine if not any(name in in_use for name in names[id_])]
    free.sort(key=lambda id_: (mine[id_], id_))
    return [list(dict.fromkeys(names[id_])) for id_ in free[: max(0, len(mine) - keep)]]

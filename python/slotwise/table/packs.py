"""The wire form of ads ("packs"): whole ads, differences and removals in the order in which they happened, as bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise import _native

if TYPE_CHECKING:
    from slotwise.classad import ClassAd
    from slotwise.classad.values import Value


class PackBuilder:
    """Builds a pack operation by operation.

    :param reset: the receiver drops its ads before it applies the pack.
    """

    __slots__ = ("_native",)

    def __init__(self, *, reset: bool = False) -> None:
        self._native = _native.PackBuilder(reset)

    def __len__(self) -> int:
        """Number of operations so far."""
        return len(self._native)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._native.size

    def upsert(self, key: str, ad: ClassAd | Mapping[str, Value]) -> None:
        """The ad of *key* is *ad*."""
        self._native.upsert(key, ad)

    def update(self, key: str, delta: ClassAd | Mapping[str, Value], removed: Sequence[str] = ()) -> None:
        """These attributes of the ad of *key* changed; *removed* are removed."""
        self._native.update(key, delta, list(removed))

    def update_from(self, key: str, old: ClassAd, new: ClassAd) -> bool:
        """Adds the difference from *old* to *new*; False, and nothing added, if they are the same."""
        return self._native.update_from(key, old, new)

    def remove(self, key: str) -> None:
        """The ad of *key* is removed."""
        self._native.remove(key)

    def finish(self) -> bytes:
        """The pack. The builder starts over."""
        return self._native.finish()


def pack_ads(ads: Iterable[ClassAd | Mapping[str, Value]], keys: Sequence[str] | None = None) -> bytes:
    """Ads as a pack; with *keys*, applying it makes them the ads of those keys."""
    return _native.pack_ads(ads, None if keys is None else list(keys))


def split_pack(pack: bytes, most: int) -> list[bytes]:
    """Splits a pack into several of about *most* bytes each, to be applied in order; a single ad may be larger."""
    return [pack] if len(pack) <= most else _native.split_pack(pack, most)


def survey_pack(pack: bytes) -> tuple[int, list[str]]:
    """The number of ads in a pack (without removals), and the attribute names in it; builds no ad.

    :raises AdBatchError: the bytes are not a pack.
    """
    return _native.survey_pack(pack)


class PackKeys(Struct, frozen=True):
    """The keys in a pack, of whole, changed and removed ads, and the attribute names in it."""

    whole: list[str]
    changed: list[str]
    removed: list[str]
    names: list[str]
    #: For each wanted attribute, the keys of the ads that set it, with the text; None for anything but a plain
    #: string. An ad that sets it twice occurs twice.
    said: dict[str, list[tuple[str, str | None]]]
    #: Bytes of the whole and of the changed ads, in the order of their keys: of names, and of texts of values, also of
    #: those that the pack has once for several ads.
    whole_bytes: list[int]
    changed_bytes: list[int]


def pack_keys(pack: bytes, wanted: Sequence[str] = ()) -> PackKeys:
    """The keys in a pack, and the values of the attributes *wanted*; builds no ad.

    :raises AdBatchError: the bytes are not a pack.
    """
    whole, changed, removed, names, said, sizes = _native.pack_keys(pack, list(wanted))
    return PackKeys(whole, changed, removed, names, dict(zip(wanted, said, strict=True)), *sizes)


def unpack_ads(pack: bytes) -> list[ClassAd]:
    """The ads of a pack (of a delta, the attributes that it sets), without removals.

    :raises AdBatchError: the bytes are not a pack.
    """
    return _native.unpack_ads(pack)


def unpack_ops(pack: bytes) -> list[tuple[str, str | None, ClassAd | None, list[str]]]:
    """The operations of a pack: (kind, key, ad, removed names), kind one of ``ad``, ``delta``, ``remove``."""
    return _native.unpack_ops(pack)


def without(pack: bytes, keys: Collection[str]) -> bytes:
    """A pack without what it says of the ads of *keys*.

    :raises AdBatchError: the bytes are not a pack.
    """
    builder = PackBuilder()
    for kind, key, ad, removed in unpack_ops(pack):
        if key is None or key in keys:
            continue
        if kind == "remove":
            builder.remove(key)
        elif kind == "ad" and ad is not None:
            builder.upsert(key, ad)
        elif ad is not None:
            builder.update(key, ad, removed)
    return builder.finish()


def diff_ads(old: ClassAd, new: ClassAd) -> tuple[ClassAd, list[str]]:
    """What a receiver that has *old* needs: changed attributes, and removed names."""
    return _native.diff_ads(old, new)


class Picked(Struct, frozen=True):
    """Columns that :func:`picked` has made of rows: numbers are doubles as bytes, NaN where there is none."""

    numbers: list[bytes]
    words: list[list[str | None]]
    own: list[bytes]
    kept: list[tuple[int, bytes]]


def picked(
    rows: Iterable[tuple[str | int | bytes | None, ...]], numbers: Sequence[str], words: Sequence[str], own: int = 0
) -> Picked:
    """The values of attributes in texts of changes, as the schedd stores them (JSON).

    A row is a text and ``own`` further values: numbers, which become columns likewise, or bytes, which are kept with
    the place of their row. For each of ``words`` there are strings, or texts of expressions, or None.
    """
    return Picked(*_native.picked(rows, list(numbers), list(words), own))

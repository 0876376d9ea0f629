"""Which statistics a daemon's ad shows: STATISTICS_TO_PUBLISH and STATISTICS_TO_PUBLISH_LIST. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from slotwise.model.knobs import Knobs

T = TypeVar("T")


class Publication(Struct, frozen=True):
    """Which statistics of a category an ad shows: ``level`` 0 none, 1 basic, 2 more, 3 all; of late too; in all too."""

    level: int = 1
    recent: bool = True
    lifetime: bool = True
    #: Whether those that are zero are left out.
    nonzero: bool = False
    #: Statistics, in small letters, that are shown at every level (STATISTICS_TO_PUBLISH_LIST).
    listed: frozenset[str] = frozenset()

    @classmethod
    def configured(cls, config: Knobs, *names: str, default: Publication | None = None) -> Publication:
        """What the knobs say of the category ``names``; ``default``: what it shows when they do not name it."""
        found = cls.of(config.get("STATISTICS_TO_PUBLISH"), *names, default=default)
        listed = config.get("STATISTICS_TO_PUBLISH_LIST") or ""
        return replace(found, listed=frozenset(listed.replace(",", " ").lower().split()))

    @classmethod
    def of(cls, text: str | None, *names: str, default: Publication | None = None) -> Publication:
        """What STATISTICS_TO_PUBLISH says of the category ``names`` (manual; None: it is not set).

        Later words take the place of earlier ones. Letters that mean nothing are passed over, as in HTCondor.
        """
        default = default or cls()
        if text is None or text.strip().lower() == "default":
            return default
        known = {"default", "all", *(name.lower() for name in names)}
        found = cls(level=0, recent=False)
        for word in text.replace(",", " ").split():
            name, _, options = word.partition(":")
            if name.lower() in known:
                found = cls(level=0, recent=False) if options.lower() == "none" else default._with(options)
        return found

    def _with(self, options: str) -> Publication:
        level, is_not = self.level, False
        flags = {"r": self.recent, "l": self.lifetime, "z": self.nonzero}
        for letter in options.lower():
            if letter in "0123":
                level = int(letter)
            elif letter == "!":
                is_not = True
            elif letter in flags:
                flags[letter] = not is_not
        return Publication(level, flags["r"], flags["l"], flags["z"])

    def shows(self, name: str, level: int = 1) -> bool:
        """Whether the statistic ``name`` of this level is shown."""
        return level <= self.level or name.lower() in self.listed

    def select(self, totals: Mapping[str, T], recent: Mapping[str, T], level: int = 1) -> dict[str, T]:
        """The attributes of statistics of this level: totals by name, and ``Recent`` ones."""
        found: dict[str, T] = {}
        if self.lifetime:
            found.update({name: value for name, value in totals.items() if self.shows(name, level)})
        if self.recent:
            found.update({f"Recent{name}": value for name, value in recent.items() if self.shows(name, level)})
        if self.nonzero:
            found = {name: value for name, value in found.items() if value and str(value).strip("0., ")}
        return found

"""A configuration that was read: typed answers, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotwise.config.refusal import config_error
from slotwise.config.table import find_knob
from slotwise.errors import ConfigError

if TYPE_CHECKING:
    from slotwise.classad import ExprTree


@dataclass(frozen=True)
class Origin:
    """Where a value was set. ``file`` may be ``<Detected>``, ``<Environment>``, ``<Runtime>`` or ``<Default>``;
    ``line`` is 0 for sources without lines; ``template`` is ``CATEGORY:NAME`` for values that ``use`` made."""

    file: str
    line: int = 0
    template: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{text}, use {self.template}" if self.template else text


DEFAULT = Origin("<Default>")


class Config:
    """A configuration as one subsystem reads it. Frozen; macros expand each time a value is asked for."""

    __slots__ = ("_data", "local_name", "subsystem")

    def __init__(self, data: Any, subsystem: str | None, local_name: str | None) -> None:
        self._data = data
        self.subsystem = subsystem
        self.local_name = local_name

    @property
    def data(self) -> Any:
        """The native object, for the submit language."""
        return self._data

    def seen_by(self, subsystem: str | None, local_name: str | None = None) -> Config:
        """The same settings as another subsystem reads them."""
        return Config(self._data.seen_by(subsystem, local_name), subsystem, local_name)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The expanded text, or ``default`` when the knob is undefined or empty.

        :raises ConfigError: when the macros of the value go round in circles.
        """
        try:
            text: str | None = self._data.text(name)
        except ValueError as error:
            raise config_error(error) from None
        return default if text is None else text

    def get_str(self, name: str) -> str:
        """The expanded text; empty when undefined."""
        return self.get(name) or ""

    def get_int(self, name: str, default: int = 0) -> int:
        """An integer knob: expressions are evaluated and ranges of the knob table hold. ``default`` counts when the
        knob is undefined, or no number, and the table has none."""
        try:
            number: int = self._data.integer(name, default)
        except ValueError as error:
            raise config_error(error) from None
        return number

    def get_bool(self, name: str, default: bool = False) -> bool:
        """A truth knob; see :meth:`get_int` for what ``default`` means."""
        try:
            truth: bool = self._data.boolean(name, default)
        except ValueError as error:
            raise config_error(error) from None
        return truth

    def get_float(self, name: str, default: float = 0.0) -> float:
        """A real knob; see :meth:`get_int` for what ``default`` means."""
        try:
            number: float = self._data.real(name, default)
        except ValueError as error:
            raise config_error(error) from None
        return number

    def get_list(self, name: str) -> list[str]:
        """The words of a list knob; separators are commas and blanks."""
        return self.get_str(name).replace(",", " ").split()

    def get_expr(self, name: str) -> ExprTree | None:
        """A ClassAd expression, or None when the knob is undefined or empty; a backslash in its strings is itself.

        :raises ConfigError: when the text is no expression; names the place it was set.
        """
        from slotwise.classad import ExprTree

        text = self.get(name)
        if text is None:
            return None
        try:
            return ExprTree(text, old=True)
        except ValueError as error:
            raise ConfigError(f"{name} is no expression: {error}", origin=str(self.origin(name)), key=name) from None

    def typed(self, name: str) -> str | int | bool | float | None:
        """The value by the knob table's type; None when undefined."""
        try:
            value: str | int | bool | float | None = self._data.typed(name)
        except ValueError as error:
            raise config_error(error) from None
        return value

    def raw(self, name: str) -> str | None:
        """The text before expansion, built-in defaults included."""
        found: str | None = self._data.raw(name)
        return found

    def default(self, name: str) -> str | None:
        """The built-in default before expansion."""
        found: str | None = self._data.default(name)
        return found

    def is_set(self, name: str) -> bool:
        """Whether somebody set the knob, rather than its default holding."""
        return self._data.origin(name) is not None

    def origin(self, name: str) -> Origin | None:
        """Where the value comes from; None for undefined names."""
        found = self._data.origin(name)
        if found is not None:
            return Origin(*found)
        return DEFAULT if self._data.raw(name) is not None else None

    def entry_name(self, name: str) -> str | None:
        """The name as written, with its prefix, of the setting that counts."""
        found: str | None = self._data.entry_name(name)
        if found is None and self._data.raw(name) is not None:
            knob = find_knob(name)
            return knob.name if knob else name
        return found

    def expand(self, text: str) -> str:
        """Any text with its macros expanded as in a value."""
        try:
            expanded: str = self._data.expand(text)
        except ValueError as error:
            raise config_error(error) from None
        return expanded

    def settings(self) -> list[tuple[str, str, Origin]]:
        """All that was set: name, raw text, origin; defaults are not among them."""
        return [(name, raw, Origin(file, line, template)) for name, raw, file, line, template in self._data.settings()]

    @property
    def sources(self) -> list[str]:
        """Files and commands read, in order."""
        return list(self._data.sources())

    @property
    def warnings(self) -> list[tuple[Origin, str]]:
        """What ``warning :`` statements said."""
        return [(Origin(file, line), text) for file, line, text in self._data.warnings()]

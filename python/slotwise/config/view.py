"""A configuration that was read: typed values, and the origin of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from slotwise._native import ConfigData
from slotwise.config.refusal import config_error
from slotwise.config.table import family_pattern, find_knob
from slotwise.errors import ConfigError

if TYPE_CHECKING:
    from slotwise.classad import ExprTree


class Origin(Struct, frozen=True):
    """Where a value was set. ``file`` may be ``<Detected>``, ``<Environment>``, ``<Runtime>`` or ``<Default>``;
    ``line`` is 0 for sources without lines; ``template`` is ``CATEGORY:NAME`` for values that ``use`` made."""

    file: str
    line: int = 0
    template: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{text}, use {self.template}" if self.template else text


DEFAULT = Origin("<Default>")
_T = TypeVar("_T")


class Config:
    """A configuration as one subsystem reads it. Frozen; macros expand each time a value is read."""

    __slots__ = ("_data", "local_name", "subsystem")

    def __init__(self, data: ConfigData, subsystem: str | None, local_name: str | None) -> None:
        self._data = data
        self.subsystem = subsystem
        self.local_name = local_name

    @property
    def data(self) -> ConfigData:
        """The native object, for the submit language."""
        return self._data

    def seen_by(self, subsystem: str | None, local_name: str | None = None) -> Config:
        """The same settings as another subsystem reads them."""
        return Config(self._data.seen_by(subsystem, local_name), subsystem, local_name)

    def get(self, name: str) -> str | None:
        """The expanded text; None if the knob is undefined or empty.

        :raises ConfigError: the macros of the value form a loop.
        """
        try:
            text: str | None = self._data.text(name)
        except ValueError as error:
            raise config_error(error) from None
        return text

    def get_str(self, name: str) -> str:
        """The expanded text; empty if undefined."""
        return self.get(name) or ""

    def get_text(self, name: str) -> str:
        """The expanded text, or that of the default if the knob is undefined or empty; "" without a default."""
        try:
            text: str | None = self._data.text_or_default(name)
        except ValueError as error:
            raise config_error(error) from None
        return (text or "").strip()

    def get_int(self, name: str) -> int:
        """An integer knob: expressions are evaluated, and the knob table's default and range apply.

        :raises ConfigError: it is not a number, or is undefined and has no default in the table.
        """
        return self._required(name, self.find_int(name))

    def get_bool(self, name: str) -> bool:
        """A truth knob, as :meth:`get_int`."""
        return self._required(name, self.find_bool(name))

    def get_float(self, name: str) -> float:
        """A real knob, as :meth:`get_int`."""
        return self._required(name, self.find_float(name))

    def find_int(self, name: str) -> int | None:
        """As :meth:`get_int`, but None if the knob is undefined and has no default in the table."""
        return self._found(name, self._data.integer)

    def find_bool(self, name: str) -> bool | None:
        """As :meth:`get_bool`; None if the knob is undefined and has no default in the table."""
        return self._found(name, self._data.boolean)

    def find_float(self, name: str) -> float | None:
        """As :meth:`get_float`; None if the knob is undefined and has no default in the table."""
        return self._found(name, self._data.real)

    @staticmethod
    def _found(name: str, read: Callable[[str], _T | None]) -> _T | None:
        try:
            return read(name)
        except ValueError as error:
            raise config_error(error) from None

    @staticmethod
    def _required(name: str, value: _T | None) -> _T:
        if value is None:
            raise ConfigError(f"{name} is not set, and has no default", key=name)
        return value

    def get_list(self, name: str) -> list[str]:
        """The words of a list knob; separators are commas and blanks."""
        return self.get_str(name).replace(",", " ").split()

    def get_expr(self, name: str) -> ExprTree | None:
        """A ClassAd expression, or that of the default if the knob is undefined or empty; None without a default.
        A backslash in its strings stands for itself.

        :raises ConfigError: the text is not an expression; names the place where it was set.
        """
        return self._expression(name, old=True)

    def get_escaped_expr(self, name: str) -> ExprTree | None:
        """As :meth:`get_expr`, for the few knobs in whose strings a backslash begins an escape."""
        return self._expression(name, old=False)

    def _expression(self, name: str, *, old: bool) -> ExprTree | None:
        from slotwise.classad import ExprTree

        text = self.get_text(name)
        if not text:
            return None
        try:
            return ExprTree(text, old=old)
        except ValueError as error:
            what = f"{name} is not an expression: {error}"
            raise ConfigError(what, origin=str(self.origin(name)), key=name) from None

    def typed(self, name: str) -> str | int | bool | float | None:
        """The value by the knob table's type; None if undefined."""
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
        """Whether the knob was set, so that its default does not apply."""
        return self._data.origin(name) is not None

    def origin(self, name: str) -> Origin | None:
        """The origin of the value; None for undefined names."""
        found = self._data.origin(name)
        if found is not None:
            return Origin(*found)
        return DEFAULT if self._data.raw(name) is not None else None

    def entry_name(self, name: str) -> str | None:
        """The name, as written with its prefix, of the setting that applies."""
        found: str | None = self._data.entry_name(name)
        if found is None and self._data.raw(name) is not None:
            knob = find_knob(name)
            return knob.name if knob else name
        return found

    def expand(self, text: str) -> str:
        """A text with its macros expanded as in a value."""
        try:
            expanded: str = self._data.expand(text)
        except ValueError as error:
            raise config_error(error) from None
        return expanded

    def settings(self) -> list[tuple[str, str, Origin]]:
        """All settings without defaults: name, raw text, origin."""
        return [(name, raw, Origin(file, line, template)) for name, raw, file, line, template in self._data.settings()]

    def replaced(self) -> list[tuple[str, str, Origin]]:
        """Values that others have replaced while the configuration was read, in that order: name, raw text, origin."""
        return [(name, raw, Origin(file, line, template)) for name, raw, file, line, template in self._data.replaced()]

    def members(self, family: str) -> list[tuple[str, str]]:
        """The members of a family that are set, as (name, what the administrator chose): for ``SLOT<N>_USER``
        ``("SLOT2_USER", "2")``. Several parts are joined by ``_``. A prefix such as ``STARTER.`` is omitted."""
        pattern, in_table = family_pattern(family), find_knob(family) is not None
        found: dict[str, tuple[str, str]] = {}
        for written, _raw, _origin in self.settings():
            name = written.rpartition(".")[2]
            match = pattern.fullmatch(name)
            knob = find_knob(name) if match else None
            # A form of a knob has no row; a name with a row is a member of its own family only.
            if match and (not in_table or (knob is not None and family in (knob.name, knob.family))):
                found.setdefault(name.lower(), (name, "_".join(match.groups())))
        return list(found.values())

    @property
    def sources(self) -> list[str]:
        """Files and commands read, in order."""
        return list(self._data.sources())

    @property
    def warnings(self) -> list[tuple[Origin, str]]:
        """The texts of ``warning :`` statements."""
        return [(Origin(file, line), text) for file, line, text in self._data.warnings()]

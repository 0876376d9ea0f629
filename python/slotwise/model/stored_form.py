"""The form in which values of a state machine are stored: JSON that names the class of each.

What is stored outlives the process that wrote it, so a class or field that gets another name keeps its stored one.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeAlias

from msgspec import Struct

#: What JSON holds.
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


class Reference(Struct, frozen=True):
    """Values of a class that is no part of the machine: only what identifies them is stored.

    :param identify: what identifies a value; ``resolve``: a value for it, the same one each time.
    """

    kind: type
    identify: Callable[[object], str]
    resolve: Callable[[str], object]


def _own_class(kind: type) -> str:
    return kind.__name__


def _own_field(kind: type, name: str) -> str:
    return name


class StoredForm:
    """Encodes and decodes frozen structs, enumerations, mappings and sequences of them."""

    def __init__(
        self,
        kinds: Iterable[type],
        *,
        references: Iterable[Reference] = (),
        stored_class: Callable[[type], str] = _own_class,
        stored_field: Callable[[type, str], str] = _own_field,
        masked: Mapping[str, Callable[[str], str]] | None = None,
    ) -> None:
        """
        :param kinds: the classes that occur.
        :param stored_class: the name that a class is stored with, and ``stored_field`` that of its field.
        :param masked: stored names of fields that hold secrets, and what stands in their place.
        """
        self._kinds = {stored_class(kind): kind for kind in kinds}
        self._references = {reference.kind.__name__: reference for reference in references}
        self._stored_class = stored_class
        self._stored_field = stored_field
        self._masked = dict(masked or {})

    def encode(self, value: object) -> Json:
        """A value as JSON.

        :raises TypeError: when it has no stored form.
        """
        kind = type(value)
        if (reference := self._references.get(kind.__name__)) is not None and kind is reference.kind:
            return {"": kind.__name__, "key": reference.identify(value)}
        if isinstance(value, Struct):
            names = value.__struct_fields__
            fields = {self._stored_field(kind, name): self.encode(getattr(value, name)) for name in names}
            for name in fields.keys() & self._masked.keys():
                fields[name] = self._masked[name](str(fields[name]))
            return {"": self._stored_class(kind), **fields}
        if isinstance(value, enum.Enum) and kind.__name__ in self._kinds:
            return {"": kind.__name__, "value": self.encode(value.value)}
        if isinstance(value, Mapping):
            return {"": "map", "pairs": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, tuple | list):
            return [self.encode(item) for item in value]
        if isinstance(value, bytes):
            return {"": "bytes", "base64": base64.b64encode(value).decode("ascii")}
        if value is None or isinstance(value, str | int | float | bool):
            return value
        raise TypeError(f"{kind.__name__} has no stored form")

    # Any: the JSON says which class a value becomes, and whose constructor takes the fields.
    def decode(self, value: Json) -> Any:
        """The value that was encoded.

        :raises KeyError, TypeError, AttributeError, ValueError: when nothing was encoded so.
        """
        if isinstance(value, list):
            return tuple(self.decode(item) for item in value)
        if not isinstance(value, dict):
            return value
        name, fields = str(value[""]), {name: self.decode(item) for name, item in value.items() if name}
        if name == "map":
            return dict(fields["pairs"])
        if name == "bytes":
            return base64.b64decode(fields["base64"], validate=True)
        if name in self._references:
            return self._references[name].resolve(fields["key"])
        kind = self._kinds[name]
        if issubclass(kind, enum.Enum):
            return kind(fields["value"])
        if not issubclass(kind, Struct):
            raise TypeError(f"{name} has no fields")
        return kind(**{name: fields[self._stored_field(kind, name)] for name in kind.__struct_fields__})


def structs_of(*modules: ModuleType) -> list[type[Struct]]:
    """The structs in the namespaces of modules, without the class of all."""
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct
    ]

"""Writes the reference page of messages and services from the files in `proto` and their comments.

``python -m slotwise.wire.document DIRECTORY`` writes ``protos.md`` there. Needs a checkout and grpcio-tools, as
:mod:`slotwise.wire.generate` does.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from slotwise.wire.generate import REPO

_ABOUT_PROTOS = """\
# Messages and services

Generated from `proto/slotwise/v1` by `python -m slotwise.wire.document docs/reference`; do not edit.
[What may change between versions](proto-compatibility.md) has a page of its own, and the
[guide on security](../guides/security.md) says who may call what.
"""
#: Where the parts of a file lie in the paths of its comments (descriptor.proto).
_SERVICES, _METHODS, _MESSAGES, _NESTED, _FIELDS, _ENUMS, _NESTED_ENUMS = 6, 2, 4, 3, 2, 5, 4
_Place = tuple[int, ...]


def described(proto: Path, comments: bool = False) -> FileDescriptorSet:
    """The descriptors of all files in a directory of protos, in the order of their names."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    files = sorted(str(path.relative_to(proto)) for path in proto.rglob("*.proto"))
    with tempfile.NamedTemporaryFile() as out:
        flags = ["--include_source_info"] if comments else []
        if protoc.main(["protoc", f"-I{proto}", f"--descriptor_set_out={out.name}", *flags, *files]) != 0:
            raise SystemExit(f"protoc does not take the files in {proto}")
        found = FileDescriptorSet.FromString(Path(out.name).read_bytes())
    found.file.sort(key=lambda file: file.name)
    return found


class _Page:
    """The lines of one file's section."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {tuple(place.path): place for place in file.source_code_info.location}

    def lines(self) -> Iterator[str]:
        file = self._file
        yield from (f"## {file.name.rpartition('/')[2]}", "")
        about = self._comments.get((12,))  # the comment before `syntax`
        if about is not None and about.leading_comments:
            yield from (_flowing(about.leading_comments), "")
        for index, service in enumerate(file.service):
            yield from (f"### Service {service.name}", "", *self._about((_SERVICES, index)))
            yield from ("| Call | Request | Reply | Meaning |", "| --- | --- | --- | --- |")
            for number, method in enumerate(service.method):
                asked = f"{'stream ' if method.client_streaming else ''}{_short(method.input_type)}"
                given = f"{'stream ' if method.server_streaming else ''}{_short(method.output_type)}"
                meaning = self._meaning((_SERVICES, index, _METHODS, number))
                yield f"| `{method.name}` | `{asked}` | `{given}` | {meaning} |"
            yield ""
        for index, message in enumerate(file.message_type):
            yield from self._message(message, message.name, (_MESSAGES, index))
        for index, enum in enumerate(file.enum_type):
            yield from self._enum(enum, enum.name, (_ENUMS, index))

    def _message(self, message: DescriptorProto, name: str, place: _Place) -> Iterator[str]:
        yield from (f"### {name}", "", *self._about(place))
        entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
        if message.field:
            yield from ("| Number | Field | Type | Meaning |", "| --- | --- | --- | --- |")
        for number, field in enumerate(message.field):
            meaning = self._meaning((*place, _FIELDS, number))
            if field.HasField("oneof_index") and not field.proto3_optional:
                group = message.oneof_decl[field.oneof_index].name
                meaning = f"one of *{group}*{': ' if meaning else ''}{meaning}"
            yield f"| {field.number} | `{field.name}` | `{type_of(field, entries)}` | {meaning} |"
        yield from ([""] if message.field else ["No fields.", ""])
        if message.reserved_range:
            gone = ", ".join(str(number) for span in message.reserved_range for number in range(span.start, span.end))
            yield from (f"Reserved: {gone}.", "")
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message(nested, f"{name}.{nested.name}", (*place, _NESTED, index))
        for index, enum in enumerate(message.enum_type):
            yield from self._enum(enum, f"{name}.{enum.name}", (*place, _NESTED_ENUMS, index))

    def _enum(self, enum: EnumDescriptorProto, name: str, place: _Place) -> Iterator[str]:
        values = ", ".join(f"`{value.name}` ({value.number})" for value in enum.value)
        yield from (f"### {name}", "", *self._about(place), f"One of {values}.", "")

    def _about(self, place: _Place) -> Iterator[str]:
        if meaning := self._meaning(place):
            yield from (meaning, "")

    def _meaning(self, place: _Place) -> str:
        found = self._comments.get(place)
        if found is None:
            return ""
        texts = [_flowing(text) for text in (found.leading_comments, found.trailing_comments) if text]
        return " ".join(texts).replace("|", "\\|")


def type_of(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    """A field's type as the file writes it. ``entries``: the messages that stand for the maps of the message."""
    entry = entries.get(_short(field.type_name).rpartition(".")[2])
    if entry is not None:
        key, value = (type_of(part, {}) for part in entry.field)
        return f"map<{key}, {value}>"
    name = _short(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def _short(name: str) -> str:
    """A type's name without the package."""
    return name.removeprefix(".slotwise.v1.")


def _flowing(comment: str) -> str:
    """A comment as one paragraph; what looks like markup is text."""
    words = " ".join(line.strip() for line in comment.strip().splitlines())
    return words.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") if "`" not in words else words


def protos_page(proto: Path = REPO / "proto") -> str:
    """The page of messages and services."""
    files = described(proto, comments=True).file
    return "\n".join([_ABOUT_PROTOS, *(line for file in files for line in _Page(file).lines())])


def write(directory: Path) -> None:
    """Write the page."""
    (directory / "protos.md").write_text(protos_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

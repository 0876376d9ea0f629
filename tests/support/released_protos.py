"""What released versions put on the wire, recorded, and what would break them.

``python -m tests.support.released_protos`` records the messages and services of the present version in
``tests/conformance/protos``, which is a step of each release (docs/contributing/releasing.md). A record of a version
that is released is never written again.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from slotwise.wire.document import described, type_of

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "tests" / "conformance" / "protos"
#: Field number (as text, as JSON has it) or method, and what it is.
Members = dict[str, str]


@dataclass
class Wire:
    """Names, numbers and types of a set of protos; all that an older peer relies on."""

    #: By message: "3" -> "string name".
    messages: dict[str, Members] = field(default_factory=dict)
    #: By enum: "0" -> "REMOVE".
    enums: dict[str, Members] = field(default_factory=dict)
    #: By service: "Query" -> "AdQuery returns stream AdChunk".
    services: dict[str, Members] = field(default_factory=dict)
    #: By message or enum: numbers that were in use once.
    reserved: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: FileDescriptorSet) -> Self:
        """Everything in descriptors."""
        wire = cls()
        for file in files.file:
            for message in file.message_type:
                wire._add_message(message, message.name)
            for enum in file.enum_type:
                wire._add_enum(enum, enum.name)
            for service in file.service:
                wire.services[service.name] = {method.name: _signature(method) for method in service.method}
        return wire

    @classmethod
    def recorded(cls, version: str) -> Self:
        """The record of a version."""
        return cls(**json.loads((RECORDS / f"{version}.json").read_text()))

    def _add_message(self, message: DescriptorProto, name: str) -> None:
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        self.messages[name] = {
            str(each.number): f"{_choice(message, each)}{type_of(each, entries)} {each.name}" for each in message.field
        }
        if gone := [number for span in message.reserved_range for number in range(span.start, span.end)]:
            self.reserved[name] = gone
        for nested in message.nested_type:
            if not nested.options.map_entry:
                self._add_message(nested, f"{name}.{nested.name}")
        for enum in message.enum_type:
            self._add_enum(enum, f"{name}.{enum.name}")

    def _add_enum(self, enum: EnumDescriptorProto, name: str) -> None:
        self.enums[name] = {str(value.number): value.name for value in enum.value}
        # Unlike those of messages, the ends of these are inclusive.
        if gone := [number for span in enum.reserved_range for number in range(span.start, span.end + 1)]:
            self.reserved[name] = gone


def _choice(message: DescriptorProto, each: FieldDescriptorProto) -> str:
    if not each.HasField("oneof_index") or each.proto3_optional:
        return ""
    return f"oneof {message.oneof_decl[each.oneof_index].name}: "


def _signature(method: MethodDescriptorProto) -> str:
    asked, given = (name.removeprefix(".slotwise.v1.") for name in (method.input_type, method.output_type))
    return f"{'stream ' * method.client_streaming}{asked} returns {'stream ' * method.server_streaming}{given}"


def breaks(released: Wire, now: Wire) -> list[str]:
    """What an older peer would misread, or miss: one line each, with the remedy."""
    found = []
    for kind, before, after in (
        ("message", released.messages, now.messages),
        ("enum", released.enums, now.enums),
    ):
        for name, members in before.items():
            if name not in after:
                continue  # what used it has changed, too, and is named there
            reserved = set(now.reserved.get(name, ()))
            for number, member in members.items():
                present = after[name].get(number)
                if present is None and int(number) not in reserved:
                    found.append(f"{kind} {name}: {number} ({member}) is gone: reserve its number")
                elif present is not None and present != member:
                    found.append(f"{kind} {name}: {number} was {member}, is {present}: take a new number for it")
    for name, numbers in released.reserved.items():
        lost = set(numbers) - set(now.reserved.get(name, ())) if name in now.messages or name in now.enums else set()
        found += [f"{name}: {number} was reserved and is not any more" for number in sorted(lost)]
    for name, methods in released.services.items():
        for method, signature in methods.items():
            present = now.services.get(name, {}).get(method)
            if present is None:
                found.append(f"service {name}: {method} is gone: keep it while a supported version calls it")
            elif present != signature:
                found.append(
                    f"service {name}: {method} was {signature}, is {present}: give the new call a name of its own"
                )
    return found


def present() -> Wire:
    """The protos of this checkout."""
    return Wire.of(described(ROOT / "proto"))


def version() -> str:
    """The version of this checkout."""
    stated: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return stated


def released(number: str) -> bool:
    """Whether the changelog gives a version the date of its release."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    return re.search(rf"^## {re.escape(number)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$", changelog, re.MULTILINE) is not None


def main() -> None:
    """Record the present version."""
    number = version()
    record = RECORDS / f"{number}.json"
    if released(number) and record.exists():
        sys.exit(f"{number} is released: its record stays as it is; raise the version in Cargo.toml first")
    record.write_text(json.dumps(asdict(present()), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The command line of java jobs, and what a host's virtual machine says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.errors import ConfigError
from slotwise.starter.job.java import JavaRules, attributes_of

RULES = JavaRules("/usr/bin/java", classpath=("/lib", "."), extra=("-Dsite=here",))


@pytest.mark.parametrize(
    ("ad", "moved", "words"),
    [
        ({}, True, ["-classpath", "/lib:.", "-Dsite=here", "Main", "1"]),
        ({"JarFiles": "/s/a.jar, b.jar"}, True, ["-classpath", "/lib:.:/x/a.jar:/x/b.jar", "-Dsite=here", "Main", "1"]),
        ({"JarFiles": "/s/a.jar,b.jar"}, False, ["-classpath", "/lib:.:/s/a.jar:b.jar", "-Dsite=here", "Main", "1"]),
        ({"JavaVMArgs": "-Xss1m -Da=b"}, True, ["-classpath", "/lib:.", "-Dsite=here", "-Xss1m", "-Da=b", "Main", "1"]),
        ({"JavaVMArguments": "'-Da=b c'"}, True, ["-classpath", "/lib:.", "-Dsite=here", "-Da=b c", "Main", "1"]),
    ],
)
def test_class_path_and_arguments_come_before_the_class(ad: dict[str, str], moved: bool, words: list[str]) -> None:
    program, found = RULES.command(ad.get, ("Main", "1"), Path("/x") if moved else None)
    assert (program, list(found)) == ("/usr/bin/java", words)


class Knobs:
    """Knobs of a test."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def is_set(self, name: str) -> bool:
        return name in self._values

    def get_text(self, name: str) -> str:
        return self._values.get(name, "")

    def get_int(self, name: str) -> int:
        return int(self._values[name])

    def get_bool(self, name: str) -> bool:
        return self._values.get(name) == "true"


def test_knobs_make_the_rules() -> None:
    knobs = Knobs(
        JAVA="/opt/java", JAVA_CLASSPATH_ARGUMENT="-cp", JAVA_CLASSPATH_SEPARATOR=";", JAVA_CLASSPATH_DEFAULT="/l, .",
        JAVA_EXTRA_ARGUMENTS="\"-Da=b '-Dc=d e'\"",
    )  # fmt: skip
    assert JavaRules.of(knobs) == JavaRules("/opt/java", "-cp", ";", ("/l", "."), ("-Da=b", "-Dc=d e"))
    assert JavaRules.of(Knobs(JAVA_EXTRA_ARGUMENTS="-a -b")).extra == ("-a", "-b")
    with pytest.raises(ConfigError, match="JAVA_EXTRA_ARGUMENTS"):
        JavaRules.of(Knobs(JAVA_EXTRA_ARGUMENTS='"\'open"'))


def test_a_virtual_machine_tells_its_version_and_maker() -> None:
    said = """Property settings:
    java.specification.version = 17
    java.vendor = Debian
    java.vendor.url = https://example.org
    java.version = 17.0.15
    java.version.date = 2025-04-15
openjdk version "17.0.15"
"""
    assert attributes_of(said) == {
        "HasJava": True, "JavaVendor": "Debian", "JavaVersion": "17.0.15", "JavaSpecificationVersion": "17",
    }  # fmt: skip
    assert attributes_of("java: command not found") == {} == attributes_of("")

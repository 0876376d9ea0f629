"""Jobs of the java universe: the command line of their virtual machine, and what the host's one says of itself. Pure.

Manual, "Java Applications": JAVA, JAVA_CLASSPATH_ARGUMENT, JAVA_CLASSPATH_SEPARATOR, JAVA_CLASSPATH_DEFAULT and
JAVA_EXTRA_ARGUMENTS; the job's ``jar_files`` and ``java_vm_args``. HTCondor starts the class through a wrapper class,
which tells an exception from an exit; here, as outside of a pool, an exception that nobody catches is exit code 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from slotwise.classad.values import Value
from slotwise.errors import ConfigError, UsageError
from slotwise.execution.arguments import in_double_quotes, of_job, split_new, split_old
from slotwise.execution.job_view import Lookup, file_list
from slotwise.model.knobs import Knobs

#: JobUniverse of such jobs.
JAVA = 10
#: Arguments that make a virtual machine print its properties, to its standard error.
PROPERTIES = ("-XshowSettings:properties", "-version")
_ATTRIBUTES = {
    "java.vendor": "JavaVendor",
    "java.version": "JavaVersion",
    "java.specification.version": "JavaSpecificationVersion",
}


class JavaRules(Struct, frozen=True):
    """The knobs about the host's virtual machine; ``program`` is empty where there is none."""

    program: str = ""
    classpath_argument: str = "-classpath"
    separator: str = ":"
    classpath: tuple[str, ...] = ("/usr/lib", ".")
    extra: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Knobs) -> JavaRules:
        """The rules that the configuration gives.

        :raises ConfigError: for extra arguments that are not understood.
        """
        text = config.get_text("JAVA_EXTRA_ARGUMENTS")
        quoted = in_double_quotes(text)
        try:
            extra = split_old(text) if quoted is None else split_new(quoted)
        except UsageError as error:
            raise ConfigError(f"JAVA_EXTRA_ARGUMENTS: {error}", hint=error.hint, key="JAVA_EXTRA_ARGUMENTS") from None
        return cls(
            config.get("JAVA") or "",
            config.get_text("JAVA_CLASSPATH_ARGUMENT"),
            config.get_text("JAVA_CLASSPATH_SEPARATOR")[:1],
            tuple(config.get_text("JAVA_CLASSPATH_DEFAULT").replace(",", " ").split()),
            tuple(extra),
        )

    def command(self, value: Lookup, arguments: Sequence[str], scratch: Path | None) -> tuple[str, tuple[str, ...]]:
        """The program and its arguments for the job whose attributes ``value`` looks up.

        ``scratch``: where its files have been moved to; None: they are where the job names them.
        """
        jars = value("JarFiles")
        names = file_list(jars) if isinstance(jars, str) else ()
        if scratch is not None:
            names = tuple(str(scratch / PurePosixPath(name).name) for name in names)
        path = self.separator.join((*self.classpath, *names))
        return self.program, (self.classpath_argument, path, *self.extra, *_machine_arguments(value), *arguments)


def _machine_arguments(value: Lookup) -> list[str]:
    return of_job(value("JavaVMArguments"), value("JavaVMArgs"))


def attributes_of(said: str) -> dict[str, Value]:
    """The attributes of a host whose virtual machine printed its :data:`PROPERTIES` so; none if it printed none."""
    found: dict[str, Value] = {}
    for name, attribute in _ATTRIBUTES.items():
        line = re.search(rf"(?m)^\s*{re.escape(name)}\s*=\s*(.*?)\s*$", said)
        if line is not None:
            found[attribute] = line.group(1)
    return {"HasJava": True, **found} if "JavaVersion" in found else {}

"""Batch scripts of PBS, Torque and SGE as submit descriptions. Pure.

Options are those that HTCondor's condor_qsub knows, and some that are as common (``-l select=``, ``ncpus``, ``gpus``,
job arrays with ``%``). What has no meaning here is named in :attr:`Description.ignored`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.errors import UsageError

OPTIONS = [
    *(Option(name, len(name), 1) for name in (
        "a", "A", "b", "c", "d", "wd", "e", "f", "hold_jid", "i", "j", "l", "m", "M", "N", "o", "p", "q", "r", "S",
        "shell", "t", "v", "W",
    )),
    *(Option(name, len(name)) for name in (
        "condor-keep-files", "cwd", "h", "help", "I", "print", "test", "V", "version", "z",
    )),
]  # fmt: skip
_DIRECTIVE = re.compile(r"#(?:PBS|\$)[ \t]+(.*)")
_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?(?:%([0-9]{1,9}))?")
#: So long may a job that waits for its time be late, in seconds: a hundred years.
_EVER_S = 3153600000


class Call(Struct, frozen=True):
    """What is submitted, from where, and the options of command line and script."""

    script: str
    arguments: Sequence[str]
    options: Parsed
    cwd: str
    env: Mapping[str, str]
    now: datetime
    #: Whether the script runs by itself: its first line names an interpreter, and it may be executed.
    runs_itself: bool = False


class Description(Struct):
    """A submit description, and what of the call it leaves out."""

    name: str
    lines: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The file."""
        return "\n".join(self.lines) + "\n"


def command_line(words: Sequence[str]) -> Parsed:
    """Sort the words of a call: options up to the script, what follows is the script's.

    :raises UsageError: for an unknown option, or one without its value.
    """
    takes = {option.name: bool(option.values) for option in OPTIONS}
    end = 0
    while end < len(words) and words[end].startswith("-") and len(words[end]) > 1:
        name = words[end].lstrip("-")
        end += 2 if takes.get(name) else 1
        if name == "":
            break
    parsed = _parse([word for word in words[:end] if word != "--"])
    parsed.words = list(words[end:])
    return parsed


def _parse(words: Sequence[str]) -> Parsed:
    """Letters of qsub mean different things in upper and lower case."""
    parsed = Parsed()
    rest = list(words)
    known = {option.name: option for option in OPTIONS}
    while rest:
        word = rest.pop(0)
        option = known.get(word.lstrip("-"))
        if option is None or not word.startswith("-"):
            parse([word], [])  # says that there is no such option
            raise UsageError(f"{word!r} is not an option")
        part = parse(["-x", *rest[: option.values]], [Option("x", 1, option.values, stands_for=option.name)])
        parsed.options += part.options
        rest = rest[option.values :]
    return parsed


def directives(script: str) -> Parsed:
    """The options in a script: lines that begin with ``#PBS`` or ``#$``.

    :raises UsageError: for one that is not known, or whose quotes do not close.
    """
    words: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        if found := _DIRECTIVE.match(line):
            try:
                words += shlex.split(found[1], comments=True)
            except ValueError as error:
                raise UsageError(
                    f"line {number} of the script, {line!r}: {str(error).lower()}",
                    hint="put a quote that belongs to the text into quotes of the other kind",
                ) from None
    return _parse(words)


def together(first: Parsed, second: Parsed) -> Parsed:
    """Options of both; where an option may stand only once, ``second``'s counts."""
    return Parsed([*first.options, *second.options], second.words)


def describe(call: Call) -> Description:
    """The submit description.

    :raises UsageError: for what cannot be done here, or is not well formed.
    """
    options = call.options
    name = options.value("N") or call.script.rpartition("/")[2] or "STDIN"
    made = Description(name)
    for option, why in (
        ("hold_jid", "jobs do not wait for others here: a DAG says in which order they run"),
        ("I", "slotwise submit -interactive opens a shell on a slot"),
    ):
        if options.has(option):
            raise UsageError(f"-{option} is not supported", hint=why)
    made.ignored += [f"-{option}" for option in ("c", "q", "shell") if options.has(option)]
    add = made.lines.append
    add("universe = vanilla")
    _program(call, made)
    directory = options.value("d") or options.value("wd") or call.cwd
    add(f"initialdir = {_literal(_one_line(directory))}")
    tasks = _tasks(options.value("t"))
    _streams(options, name, bool(tasks), made)
    _mail_and_priority(options, made)
    requirements = _resources(options, made)
    if (options.value("r") or "y").lower().startswith("n"):
        requirements.append("NumJobStarts == 0")
        add("periodic_remove = JobStatus == 1 && NumJobStarts > 0")
    if requirements:
        add("requirements = " + " && ".join(f"({text})" for text in requirements))
    _staging(options, made)
    _environment(call, directory, name, tasks, made)
    if options.has("h"):
        add("hold = True")
    if (when := options.value("a")) is not None:
        add(f"deferral_time = {int(moment(when, call.now).timestamp())}")
        add(f"deferral_window = {_EVER_S}")
        add("deferral_prep_time = 0")
    add(f"batch_name = {_literal(_one_line(name))}")
    if tasks:
        numbers, most = tasks
        if most:
            add(f"max_materialize = {most}")
        add(f"queue task in ({', '.join(str(number) for number in numbers)})")
    else:
        add("queue")
    return made


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise UsageError(f"{text!r} has more than one line")
    return text


def _literal(text: str) -> str:
    """Text in which the submit language expands nothing."""
    return text.replace("$", "$(DOLLAR)")


def _quoted(words: Sequence[str]) -> str:
    """Arguments or environment in the submit language's new syntax."""
    made = []
    for word in words:
        word = _one_line(word).replace('"', '""').replace("'", "''")
        made.append(f"'{word}'" if not word or re.search(r"[\s']", word) else word)
    return '"' + " ".join(made) + '"'


def _program(call: Call, made: Description) -> None:
    """What runs: the script by itself, or by a shell that is named or that it needs."""
    options, add = call.options, made.lines.append
    shell = options.value("S") or ""
    if (options.value("b") or "n").lower().startswith("y"):
        line = _literal(" ".join([call.script, *call.arguments]))
        add(f"executable = {shell or call.env.get('SHELL', '/bin/sh')}")
        add("transfer_executable = False")
        add(f"arguments = {_quoted(['-c', line])}")
        add("should_transfer_files = IF_NEEDED")
        return
    if not shell and call.runs_itself:
        add(f"executable = {_literal(_one_line(call.script))}")
        if call.arguments:
            add(f"arguments = {_quoted([_literal(word) for word in call.arguments])}")
        add("should_transfer_files = IF_NEEDED")
        return
    add(f"executable = {_one_line(shell or '/bin/sh')}")
    add("transfer_executable = False")
    add(f"arguments = {_quoted([_literal(word) for word in (call.script.rpartition('/')[2], *call.arguments)])}")
    add("should_transfer_files = YES")
    add(f"transfer_input_files = {_literal(_one_line(call.script))}")


def _streams(options: Parsed, name: str, is_array: bool, made: Description) -> None:
    """Output and error; a directory gets a file with the usual name in it."""
    tail = "$(Cluster)" + (".$(task)" if is_array else "")
    paths = {}
    for option, letter in (("o", "o"), ("e", "e")):
        given = options.value(option) or ""
        host, colon, path = given.partition(":")
        given = path if colon and "/" not in host else given
        usual = f"{_literal(name)}.{letter}{tail}"
        given = _literal(given)
        paths[option] = f"{given}{usual}" if given.endswith("/") else given or usual
    merged = (options.value("j") or "").lower()
    if merged in ("oe", "eo", "y", "yes"):
        paths["e"] = paths["o"] = paths["e"] if merged == "eo" else paths["o"]
    made.lines.append(f"output = {_one_line(paths['o'])}")
    made.lines.append(f"error = {_one_line(paths['e'])}")
    if (source := options.value("i")) is not None:
        made.lines.append(f"input = {_one_line(source)}")


def _mail_and_priority(options: Parsed, made: Description) -> None:
    add = made.lines.append
    if options.has("V"):
        add("getenv = True")
    if (user := options.value("M")) is not None:
        add(f"notify_user = {_one_line(user)}")
    letters = options.value("m") or "n"
    kind = "Never" if "n" in letters else "Complete" if "e" in letters else "Error" if "a" in letters else "Never"
    add(f"notification = {kind}")
    if (priority := options.value("p")) is not None:
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", priority):
            raise UsageError(f"-p needs a whole number of at most nine digits, not {priority!r}")
        add(f"priority = {int(priority)}")
    if (group := options.value("A")) is not None:
        add(f"accounting_group = {_one_line(group)}")


def _resources(options: Parsed, made: Description) -> list[str]:
    """What ``-l`` asks for; returns conditions on the machine."""
    requirements: list[str] = []
    wanted: dict[str, str] = {}
    for given in options.all("l"):
        for resource in given.values[0].split(","):
            _resource(resource.strip(), wanted, requirements, made)
    made.lines += [f"{name} = {value}" for name, value in wanted.items()]
    return requirements


_SIMPLE = {
    "mem": "request_memory", "pmem": "request_memory", "file": "request_disk", "procs": "request_cpus",
    "ncpus": "request_cpus", "ppn": "request_cpus", "gpus": "request_gpus", "ngpus": "request_gpus",
}  # fmt: skip
_CONDITIONS = {"arch": "TARGET.Arch", "opsys": "TARGET.OpSys", "host": "TARGET.Machine"}


def _resource(text: str, wanted: dict[str, str], requirements: list[str], made: Description) -> None:
    name, _, value = text.partition("=")
    if name in _SIMPLE:
        kind = _SIMPLE[name]
        pattern = r"\d+(\.\d+)?[kKmMgGtT]?[bBwW]?" if kind in ("request_memory", "request_disk") else r"\d+"
        if not re.fullmatch(pattern, value, re.ASCII):
            raise UsageError(f"-l {text}: {value!r} is not an amount")
        wanted[kind] = value.upper()
    elif name in _CONDITIONS:
        if not re.fullmatch(r"[\w.@-]+", value, re.ASCII):
            raise UsageError(f"-l {text}: {value!r} is not a name")
        requirements.append(f'{_CONDITIONS[name]} == "{value}"')
    elif name in ("nodes", "select"):
        _nodes(text, value, wanted, requirements, made)
    else:
        made.ignored.append(f"-l {text}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _nodes(text: str, value: str, wanted: dict[str, str], requirements: list[str], made: Description) -> None:
    """``nodes=1:ppn=4:gpus=1``, ``nodes=NAME`` and ``select=1:ncpus=4:mem=8gb``; jobs here have one node."""
    head, *properties = value.split(":")
    if "+" in value or (_is_number(head) and head.lstrip("0") != "1"):
        raise UsageError(f"-l {text} asks for several nodes", hint="universe = parallel has jobs of several nodes")
    if not _is_number(head):
        _resource(f"host={head}", wanted, requirements, made)
    for part in properties:
        if "=" in part:
            _resource(part, wanted, requirements, made)
        else:
            made.ignored.append(f"-l {text} ({part})")


def _staging(options: Parsed, made: Description) -> None:
    for given in options.all("W"):
        name, _, value = given.values[0].strip("'\"").partition("=")
        if name not in ("stagein", "stageout"):
            raise UsageError(f"-W {name} is not supported", hint="stagein and stageout are")
        files = [_one_line(part.partition(":")[2] or part) for part in value.strip("'\"").split(",")]
        if name == "stagein":
            place = next((n for n, line in enumerate(made.lines) if line.startswith("transfer_input_files = ")), None)
            if place is None:
                made.lines.append("transfer_input_files = " + ", ".join(files))
            else:
                made.lines[place] += ", " + ", ".join(files)
        else:
            made.lines.append("when_to_transfer_output = ON_EXIT")
            made.lines.append("transfer_output_files = " + ", ".join(files))


def _environment(call: Call, directory: str, name: str, tasks: tuple[list[int], int] | None, made: Description) -> None:
    words = {
        "PBS_O_WORKDIR": _literal(directory), "PBS_JOBNAME": _literal(name), "PBS_JOBID": "$(Cluster)",
        "JOB_NAME": _literal(name),
        "JOB_ID": "$(Cluster)",
    }  # fmt: skip
    if tasks:
        numbers, _ = tasks
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        words |= {
            "SGE_TASK_ID": "$(task)", "SGE_TASK_FIRST": str(numbers[0]), "SGE_TASK_LAST": str(numbers[-1]),
            "SGE_TASK_STEPSIZE": str(step), "PBS_ARRAYID": "$(task)", "PBS_ARRAY_INDEX": "$(task)",
        }  # fmt: skip
    for given in call.options.all("v"):
        for part in filter(None, given.values[0].split(",")):
            variable, equals, value = part.partition("=")
            # As HTCondor's tool does of one that has no value.
            words[_literal(variable)] = _literal(value if equals else call.env.get(variable, "True"))
    made.lines.append(f"environment = {_quoted([f'{variable}={value}' for variable, value in words.items()])}")


def _tasks(text: str | None) -> tuple[list[int], int] | None:
    """The numbers of an array's tasks, and how many may be in the queue at once (0: all)."""
    if text is None:
        return None
    found = _TASKS.fullmatch(text)
    if found is None:
        raise UsageError(f"-t {text} is not FIRST-LAST, with :STEP or %MOST behind it")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or step < 1:
        raise UsageError(f"-t {text} has no tasks")
    if (last - first) // step >= 100_000:
        raise UsageError(f"-t {text} has more than 100,000 tasks")
    return list(range(first, last + 1, step)), int(found[4] or 0)


def moment(text: str, now: datetime) -> datetime:
    """The time of ``-a``, ``[[[[CC]YY]MM]DD]hhmm[.SS]``: what is left out is such that it lies ahead.

    :raises UsageError: it is none.
    """
    head, _, seconds = text.partition(".")
    if not _is_number(head) or len(head) not in (4, 6, 8, 10, 12) or (seconds and not re.fullmatch(r"\d\d", seconds)):
        raise UsageError(f"-a {text} is not [[[[CC]YY]MM]DD]hhmm[.SS]")
    year = int(head[:4]) if len(head) == 12 else now.year // 100 * 100 + int(head[:2]) if len(head) == 10 else now.year
    rest = head[-8:] if len(head) >= 8 else head
    month = int(rest[:2]) if len(rest) == 8 else now.month
    day = int(rest[-6:-4]) if len(rest) >= 6 else now.day
    try:
        found = datetime(year, month, day, int(rest[-4:-2]), int(rest[-2:]), int(seconds or 0))
        if found < now and len(head) == 4:
            found += timedelta(days=1)
        elif found < now and len(head) == 6:
            found = found.replace(year=year + month // 12, month=month % 12 + 1)
    except ValueError as error:
        raise UsageError(f"-a {text}: {error}") from None
    return found

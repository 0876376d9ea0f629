"""What ``condor_submit`` says and does otherwise than ``slotwise submit``.

A description without a queue statement makes one job; ``-queue`` and a queue statement exclude each other; a
submission that fails once its jobs are being made has used up a cluster id; errors come in HTCondor's words, which
scripts look for, and without a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from slotwise.classad import UNDEFINED, ClassAd
from slotwise.cli.jobs import submit_rpc
from slotwise.errors import SubmitError
from slotwise.release import CONDOR_VERSION, condor_platform

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.common.options import Parsed
    from slotwise.cli.jobs.submit_args import SubmitArgs

_NAME = re.compile(r"^(\w+) = ", re.MULTILINE)
_QUEUE = re.compile(r"^[ \t]*queue\b(?![ \t]*=)", re.IGNORECASE | re.MULTILINE)
#: Our messages, and HTCondor's in their place; groups of the former may stand in the latter.
_WORDS = [
    (re.compile(ours, re.DOTALL), theirs)
    for ours, theirs in (
        (
            r"Executable file (?P<path>.*) does not exist.*",
            "Can't access executable file {path}: No such file or directory",
        ),
        (r"(?P<what>\w+=.* is invalid, must eval to an integer)", "{what}."),
        (r"I don't know about the '(?P<name>.*)' universe.*", "I don't know about the '{name}' universe."),
        (
            r"invalid value \((?P<value>.*)\) for when_to_transfer_output.*",
            "invalid value ({value}) for WhenToTransferOutput.  Please either\nspecify ON_EXIT, or ON_EXIT_OR_EVICT and"
            " try again.",
        ),
        (
            r"invalid value \((?P<value>.*)\) for should_transfer_files.*",
            "invalid value ({value}) for ShouldTransferFiles.  Please either\nspecify YES, NO, or IF_NEEDED and try"
            " again.",
        ),
        (
            r"there are \d+ jobs, and -maxjobs allows (?P<most>\d+)",
            "Number of submitted jobs would exceed -maxjobs ({most})",
        ),
        (
            r"unbalanced quote starting here: .*?(?P<end>'[^']*); the full arguments you specified were: (?P<all>.*)",
            "Unbalanced quote starting here: {end}\nThe full arguments you specified were: {all}",
        ),
        (
            r"unbalanced quote starting here: .*?(?P<end>'[^']*); the environment you specified was: (?P<all>.*)",
            "Unbalanced quote starting here: {end}\nThe environment you specified was: {all}",
        ),
        (
            r"(?P<name>\w+) is not an expression: .*?\n(?P<text>[^\n]*)\n.*",
            "Parse error in expression: \n\t{name} = {text}",
        ),
        (r"cannot read (?P<name>.*): (?P<why>[^:]*)", "Failed to open command file ({name}) ({why})"),
    )
]
#: Statements that cannot be read, so that nothing was begun: our messages, and what HTCondor says behind the place, in
#: which {file}, {line} and the message itself ({said}) may stand.
_UNREADABLE = [
    (re.compile(ours, re.DOTALL), theirs)
    for ours, theirs in (
        (r".* is not a statement.*", ""),
        (r".* is not a number of jobs.*", " Invalid Queue count expression"),
        (r".* is not a possible number of jobs.*", " Queue count out of range"),
        (r"cannot read items from (?P<name>.*): (?P<why>[^:]*)", " can't open file {name}: {why}"),
        (r"Reached end of file without finding closing brace .*", " {said}"),
        (
            r"endif\(s\) not found before end-of-file",
            ' {said}\nSubmit:-1:Error "{file}", Line {line}: ',
        ),
        (
            r"(?:else|elif|endif) (?:is not allowed|without matching).*|.* is not a valid if condition .*",
            " {said}",
        ),
        (
            r"use (?P<kind>\w+): does not recognise (?P<name>.*)",
            ' \nSubmit:-1:Error "{file}", Line {line}: at use {kind}:{name}\n|Submit:-1:Error: {said}',
        ),
        (
            r"can't include (?P<name>.*): (?P<why>[^:]*)",
            ' \nSubmit:-1:Error "{name}", Line 0, Include Depth 1: can\'t open file {name}: {why}',
        ),
    )
]
#: The statement `error :` has a message of the description's own.
_STOPPED = "an `error :` statement"
#: Where HTCondor has come to when it says so: the end of the file.
_AT_END = re.compile(r"Reached end of file")


class NoJobsError(SubmitError):
    """The queue statements of a description make no jobs, for which there is no item or a count of 0."""

    def __init__(self) -> None:
        super().__init__("no jobs queued", hint="the description needs a queue statement that makes jobs")


class _ConflictError(SubmitError):
    """``-queue`` was given, and the description has a queue statement."""


def run(parsed: Parsed, inv: Invocation, submit: Callable[[Parsed, Invocation], int]) -> int:
    """Submit, and speak of a failure as HTCondor does."""
    try:
        return submit(parsed, inv)
    except NoJobsError:
        if not parsed.has("terse"):
            inv.out("Dry-Run job(s)" if parsed.has("dry-run") else "Submitting job(s)")
            inv.stdout.flush()
        inv.err(f'\nWARNING: "{_file_of(parsed)}" has only empty "queue" commands -- no jobs queued')
        return 0
    except SubmitError as error:
        _fail(error, parsed, inv)
        return 1
    except OSError as error:
        if parsed.value("dry-run") is None:
            raise
        inv.out("Dry-Run job(s)", end="")
        inv.err(f"\nERROR: Failed to open file -dry-run output file ({error.strerror})")
        return 1


def _fail(error: SubmitError, parsed: Parsed, inv: Invocation) -> None:
    dry = parsed.has("dry-run") or parsed.has("dump")
    place, _, message = error.message.partition(": ") if error.origin else ("", "", error.message)
    said = _said_of_statement(error, message)
    begun = said is not None or not error.message.startswith("cannot read ")
    if begun and not parsed.has("terse") and _file_of(parsed) != "-":
        if not dry:
            inv.out("Submitting job(s)" + "." * ("-maxjobs" in error.message))
        elif parsed.has("dry-run"):
            inv.out("Dry-Run job(s)", end="")
        inv.stdout.flush()
    if said is not None:
        file, _, line = place.rpartition(":")
        if place.startswith("<command line>"):  # it stands before the queue statement, or behind all
            file = _file_of(parsed)
            text = "" if file == "-" else inv.path(file).read_text(errors="replace")
            queue = _QUEUE.search(text)
            line = str(text.count("\n", 0, queue.start()) + 1 if queue else text.count("\n"))
        elif _AT_END.match(message) and inv.path(file).is_file():
            line = str(len(inv.path(file).read_text(errors="replace").splitlines()))
        said = said.replace("{file}", file).replace("{line}", line)
        inv.err(f"\nERROR: on Line {line} of {file}:{said}\n\nERROR: Failed to parse command file (line {line}).")
        return
    if begun and not dry:
        submit_rpc.reserve(inv, parsed, 1)
    inv.err(f"\nERROR: {_worded(message)}")


def _said_of_statement(error: SubmitError, message: str) -> str | None:
    """What HTCondor says of a statement that it cannot read, yet with {file} and {line}; None: the error is another."""
    if isinstance(error, _ConflictError):
        return f" {message}"
    if (error.hint or "").startswith(_STOPPED):
        return f' \nSubmit:-1:Error "{{file}}", Line {{line}}: {message}'
    for ours, theirs in _UNREADABLE:
        if found := ours.fullmatch(message):
            own = {"said": message, "file": "{file}", "line": "{line}"}
            return theirs.format(**own | found.groupdict())
    return None


def _file_of(parsed: Parsed) -> str:
    """The description's name as it was given; ``-`` is standard input."""
    return next((word for word in parsed.words if "=" not in word), parsed.value("file") or "-")


def _worded(message: str) -> str:
    for ours, theirs in _WORDS:
        if found := ours.fullmatch(message):
            return theirs.format(**found.groupdict())
    return message


def settle_queue(asked: SubmitArgs) -> None:
    """One job where the description has no queue statement.

    :raises SubmitError: when it has one and ``-queue``, or ``-append queue``, was given.
    """
    found = _QUEUE.search(asked.text)
    if asked.queue is not None and found:
        line = asked.text.count("\n", 0, found.start()) + 1
        raise _ConflictError(
            "-queue argument conflicts with queue statement in submit file", origin=f"{asked.filename}:{line}"
        )
    if not found and asked.queue is None:
        asked.queue = "1"


def lacks_input(error: SubmitError) -> bool:
    """Whether all that is wrong is an input file that is not there: HTCondor's tool does not look for these
    (SUBMIT_SKIP_FILECHECKS), and the jobs are held when they want them."""
    return bool(re.search(r"(?:^|: )Input file .* does not exist", error.message))


def warning(text: str) -> str:
    """A warning in HTCondor's words."""
    found = re.fullmatch(
        r"(?:.*?:\d+: )?(?P<loop>the queue variable )?`(?P<name>.*)` was not used; (?:is it a typo|did you .*)\?", text
    )
    if found is None:
        return text
    what = "Queue variable" if found["loop"] else "line"
    return f"the {what} '{found['name']}' was unused by condor_submit. Is it a typo?"


#: What we put into the ads of jobs that are only shown, and HTCondor does not.
_OURS = ("RootDir", "NumShadowStarts")


def ads(cluster: int, jobs: Sequence[ClassAd]) -> Iterator[str]:
    """What ``-dump`` and ``-dry-run`` write of a cluster's jobs: the first one's ad, and how each later one differs."""
    shared = jobs[0].copy()
    for name in (*_OURS, "ClusterId", "ProcId", "JobStatus"):
        if name in shared:
            del shared[name]
    shared["Owner"] = UNDEFINED
    shared["CondorVersion"] = shared["SubmitVersion"] = CONDOR_VERSION
    shared["CondorPlatform"] = condor_platform()
    for proc, job in enumerate(jobs):
        own = ClassAd() if proc else shared
        if proc:
            for name in job:
                known = name in shared and job.lookup(name) == shared.lookup(name)
                if not known and name not in (*_OURS, "ClusterId", "ProcId", "JobStatus", "Owner"):
                    own[name] = job.lookup(name)
        head = "" if proc else f"ClusterId={cluster}\n"
        status = f"ProcId={proc}\nJobStatus={job.get('JobStatus', 1)}\n"
        lines = _NAME.sub(r"\1=", own.print_old()) if len(own) else ""
        yield f"\n{status}{lines}" if proc else f"\n{head}{lines}{status}"

"""How HTCondor's tools say that the words of a call are off: each in its own way, on its own stream.

``slotwise`` says it in one way, with a remedy; this is what is printed under HTCondor's names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotwise.cli.common.options import MissingValueError, UnknownOptionError
from slotwise.errors import AdSyntaxError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.errors import SlotwiseError, UsageError


@dataclass(frozen=True)
class _Tool:
    """``unknown`` and ``missing`` are the sentences, with {word}, {option} and {called}; empty: the usage alone."""

    unknown: str = ""
    missing: str = "{called}: {word} requires another argument"
    #: Whether the usage goes to standard output.
    usage_out: bool = False


_ACTS = _Tool("Unrecognized option: {word}")
_DAEMONS = _Tool('ERROR: invalid argument "{word}"', "ERROR: {word} requires another argument")
_TOOLS = {
    "condor_q": _Tool("Error: unrecognized argument {word}", "Error: {word} requires {wants}", usage_out=True),
    "condor_status": _Tool(
        "Error:  Unknown option {word}",
        '{called}: {word} requires another argument\nUse "condor_status -help" for details',
    ),
    "condor_history": _Tool("Error: Unknown argument {word}", "Error: Argument {word} requires {wants}", True),
    "condor_userprio": _Tool(missing=""),
    "condor_config_val": _Tool("{word} is not a valid argument", "{word} requires an argument"),
    "condor_wait": _Tool(missing="{word} requires an argument"),
    "condor_prio": _Tool("You must specify a new priority or priority adjustment."),
    "condor_qedit": _Tool("{called}: {word} is not a valid option"),
    "condor_findhost": _Tool(usage_out=True),
    "condor_who": _Tool("Error: {word} is not a valid argument", "Error: Argument {word} requires an argument"),
    "condor_ping": _Tool("ERROR: Unknown argument: {word}"),
    **dict.fromkeys(
        (f"condor_{verb}" for verb in ("rm", "hold", "release", "suspend", "continue", "vacate_job", "transfer_data")),
        _ACTS,
    ),
    **dict.fromkeys(
        (f"condor_{verb}" for verb in ("on", "off", "restart", "reconfig", "reschedule", "vacate")), _DAEMONS
    ),
}
#: What an option wants, in the words of condor_q.
_WANTS = {
    "name": "the name of a schedd as an argument.",
    "pool": "a hostname as an argument.",
    "format": "format and attribute parameters",
}


#: Tools that print their help on standard error, and the status that they end with then.
_HELP_ON_ERROR = {
    "condor_version": 0, "condor_config_val": 1, "condor_status": 0, "condor_userprio": 1,
    "condor_wait": 0, "condor_tail": 0, "condor_drain": 1, "condor_reschedule": 0, "condor_ssh_to_job": 0,
    "condor_rm": 0, "condor_hold": 0, "condor_release": 0, "condor_suspend": 0, "condor_continue": 0,
    "condor_vacate_job": 0, "condor_transfer_data": 0, "condor_qedit": 0, "condor_prio": 1,
    "condor_fetchlog": 0, "condor_userlog": 0, "condor_who": 1,
}  # fmt: skip


#: Tools that have no option -version, or end it with a status of their own.
WITHOUT_VERSION = frozenset(("condor_submit", "condor_history", "condor_userprio", "condor_wait", "htcondor"))


def status_of_help(called: str, args: list[str]) -> int | None:
    """The status of a call for help whose text goes to standard error; None: it is another call, or goes elsewhere."""
    asks = len(args) == 1 and args[0].lstrip("-").lower() == "help" and args[0].startswith("-")
    return _HELP_ON_ERROR.get(called) if asks else None


def refuse(error: UsageError, inv: Invocation) -> int:
    """Print what HTCondor's tool of the name that was called says of ``error``; returns its exit status, 1."""
    tool = _TOOLS.get(inv.called, _Tool())
    names = {"called": inv.called, "word": "", "wants": "another argument"}
    if isinstance(error, UnknownOptionError):
        if tool.unknown:
            inv.err(tool.unknown.format(**names | {"word": error.word}))
        usage(inv, out=tool.usage_out)
    elif isinstance(error, MissingValueError):
        wants = _WANTS.get(error.option, "another argument")
        if not tool.missing:
            usage(inv, out=tool.usage_out)
            return 1
        inv.err(tool.missing.format(**names | {"word": f"-{error.option}", "wants": wants}))
    else:
        inv.err(error.message if getattr(error, "bare", False) else f"{inv.called}: {error}")
    return 1


_NO_DAEMON = r"the pool has no (?:schedd|startd|machine or slot) (?:named )?'?(?P<name>[^\s']+).*"
_NO_JOB = r"there is no job (?P<job>\S+) in the queue.*"
_ACT_VERBS = {
    "rm": "remove", "hold": "hold", "release": "release", "suspend": "suspend", "continue": "continue",
    "vacate_job": "vacate",
}  # fmt: skip
#: Failures in HTCondor's words: a pattern of ours, and what stands in its place.
_FAILURES: dict[str, list[tuple[str, str]]] = {
    "condor_q": [(_NO_DAEMON, "Error: Collector has no record of schedd/submitter")],
    "condor_submit": [(_NO_DAEMON, "\nERROR: Can't find address of schedd {name}")],
    "condor_history": [(_NO_DAEMON, "Unable to locate remote schedd (name={name}, pool=).")],
    "condor_drain": [(_NO_DAEMON, "ERROR: Can't find address for startd {name}")],
    "condor_status": [
        (_NO_DAEMON, "Error: Failed to locate startd {name}\nCan't find address for startd {name}"),
    ],
    "condor_tail": [(_NO_JOB, "No such job: {job}")],
    "condor_ssh_to_job": [(_NO_JOB, "Unable to fetch job ad; is it still in the queue?")],
    **{f"condor_{verb}": [(_NO_DAEMON, "Error: cannot get address of schedd {name}")] for verb in _ACT_VERBS},
}
#: What is said of a constraint that is not an expression.
_BAD_CONSTRAINT = {
    "condor_status": "Error:  invalid constraint",
    "condor_findhost": "\nERROR:  failed to fetch startd ads ... aborting",
    "condor_history": "Error: could not parse constraint ( ({text}) )",
    **{
        f"condor_{verb}": "DCSchedd::actOnJobs:1:Can't insert constraint into ClassAd\n"
        f"Couldn't find/{infinitive} all jobs matching constraint ({{text}})"
        for verb, infinitive in _ACT_VERBS.items()
    },
}


def failure(error: SlotwiseError, inv: Invocation) -> str:
    """What HTCondor's tool of the name that was called says of a failed call; ours where it has no words of its own."""
    if isinstance(error, AdSyntaxError) and inv.called in _BAD_CONSTRAINT:
        return _BAD_CONSTRAINT[inv.called].format(text=error.source)
    for ours, theirs in _FAILURES.get(inv.called, ()):
        if found := re.fullmatch(ours, error.message, re.DOTALL):
            return theirs.format(**found.groupdict())
    return f"ERROR: {error}"


def usage(inv: Invocation, *, out: bool = False) -> None:
    """One line of usage."""
    line = f"Usage: {inv.called} [options] ...   ({inv.called} -help tells the options)"
    inv.out(line) if out else inv.err(line)

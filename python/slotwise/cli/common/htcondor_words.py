"""How HTCondor's tools say that the words of a call are off: each in its own way, on its own stream.

``slotwise`` says it in one way, with a remedy; this is what is printed under HTCondor's names.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise import __version__
from slotwise.cli.common.options import MissingValueError, UnknownOptionError
from slotwise.errors import AdSyntaxError
from slotwise.release import CONDOR_VERSION, condor_platform

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.errors import SlotwiseError, UsageError


class _Tool(Struct, frozen=True):
    """``unknown`` and ``missing`` are the sentences, with {word}, {option} and {called}; empty: the usage alone."""

    unknown: str = ""
    missing: str = "{called}: {word} requires another argument"
    #: Whether the usage goes to standard output.
    usage_out: bool = False
    #: No usage stands behind an unknown option; one stands behind a missing argument.
    bare: bool = False
    missing_usage: bool = False


_ACTS = _Tool("Unrecognized option: {word}")
_DAEMONS = _Tool(
    'ERROR: invalid argument "{word}"',
    'ERROR: {word} requires another argument\nUse "-help" to see usage information',
)
_TOOLS = {
    "condor_q": _Tool("Error: unrecognized argument {word}", "Error: {word} requires {wants}", usage_out=True),
    "condor_status": _Tool(
        "Error:  Unknown option {word}",
        '{called}: {word} requires {wants}\nUse "condor_status -help" for details',
    ),
    "condor_history": _Tool("Error: Unknown argument {word}", "Error: Argument {word} requires {wants}", True),
    "condor_userprio": _Tool(missing=""),
    "condor_config_val": _Tool("{word} is not a valid argument", "{word} requires an argument"),
    "condor_wait": _Tool(missing="{word} requires an argument", missing_usage=True),
    "condor_drain": _Tool(
        "ERROR: unexpected argument: {word}",
        "{called}: '{word}' requires another argument",
        bare=True,
        missing_usage=True,
    ),
    "condor_ssh_to_job": _Tool("Unrecognized argument: {word}\n", "{word} requires an argument\n", bare=True),
    "condor_tail": _Tool("Invalid Job ID: {word}"),
    "condor_advertise": _Tool("Unknown argument: {word}"),
    "condor_qusers": _Tool("Error: unexpected argument: {word}"),
    "condor_version": _Tool("ERROR: unrecognized argument: '{word}'"),
    **dict.fromkeys(
        (f"condor_token_{verb}" for verb in ("list", "fetch", "request", "request_list", "request_approve")),
        _Tool("{called}: Invalid command line argument: {word}"),
    ),
    "condor_prio": _Tool("You must specify a new priority or priority adjustment."),
    "condor_qedit": _Tool("{called}: {word} is not a valid option"),
    "condor_findhost": _Tool(usage_out=True),
    "condor_who": _Tool(
        "Error: {word} is not a valid argument", "Error: Argument {word} requires an argument", bare=True
    ),
    "condor_ping": _Tool("ERROR: Unknown argument: {word}"),
    "condor_watch_q": _Tool("{called}: error: unrecognized arguments: {word}", bare=True),
    **dict.fromkeys(
        (f"condor_{verb}" for verb in ("rm", "hold", "release", "suspend", "continue", "vacate_job", "transfer_data")),
        _ACTS,
    ),
    **dict.fromkeys(
        (f"condor_{verb}" for verb in ("on", "off", "restart", "reconfig", "set_shutdown", "reschedule", "vacate")),
        _DAEMONS,
    ),
}
#: What an option wants, in the words of each tool.
_WANTS = {
    ("condor_q", "name"): "the name of a schedd as an argument.",
    ("condor_q", "pool"): "a hostname as an argument.\n"
    "Extra Info: The hostname should be the central manager of the Condor pool you\nwish to work with.",
    ("condor_q", "format"): "format and attribute parameters",
    ("condor_q", "constraint"): "another parameter",
    ("condor_q", "submitter"): "the name of a user.",
    ("condor_q", "limit"): "the max number of results as an argument.",
    ("condor_q", "attributes"): "a list of attributes to show",
    ("condor_q", "print-format"): "a filename argument",
    ("condor_q", "jobads"): "a filename",
    ("condor_history", "format"): "a spec and classad attribute name as parameters.\n"
    "\t\te.g. condor_history -format '%d' ClusterId",
    ("condor_history", "name"): "name of a remote schedd\n\t\te.g. condor_history -name submit.example.com ",
    ("condor_history", "match"): "a number value as a parameter.",
    ("condor_history", "limit"): "a number value as a parameter.",
    ("condor_history", "since"): "another parameter",
    ("condor_status", "ads"): "a filename argument",
    ("condor_status", "merge"): "a filename argument",
    ("condor_status", "format"): "two other arguments",
}
#: Tools that end with this status when their words are wrong; the others with 1.
_STATUS = {
    "condor_drain": 2, "condor_ssh_to_job": 2, "condor_gather_info": 2, "condor_top": 2, "condor_qusers": 2,
}  # fmt: skip
#: Those of them that do so only for an option that they do not know.
_BY_OPTION = ("condor_drain", "condor_top")


#: Tools that print their help on standard error, and the status that they end with then.
_HELP_ON_ERROR = {
    "condor_version": 0, "condor_config_val": 1, "condor_status": 0, "condor_userprio": 1,
    "condor_wait": 0, "condor_tail": 0, "condor_drain": 1, "condor_reschedule": 0, "condor_ssh_to_job": 0,
    "condor_rm": 0, "condor_hold": 0, "condor_release": 0, "condor_suspend": 0, "condor_continue": 0,
    "condor_vacate_job": 0, "condor_transfer_data": 0, "condor_qedit": 0, "condor_prio": 1,
    "condor_fetchlog": 0, "condor_userlog": 0, "condor_who": 1, "condor_vacate": 0, "condor_advertise": 0,
}  # fmt: skip


#: Tools that have no option -version, or end it with a status of their own.
WITHOUT_VERSION = frozenset(
    (
        "condor_submit",
        "condor_history",
        "condor_userprio",
        "condor_wait",
        "condor_ssh_to_job",
        "htcondor",
        "classad_eval",
    )
)


def status_of_help(called: str, args: list[str]) -> int | None:
    """The status of a call for help whose text goes to standard error; None: it is another call, or goes elsewhere."""
    asks = len(args) == 1 and args[0].lstrip("-").lower() == "help" and args[0].startswith("-")
    return _HELP_ON_ERROR.get(called) if asks else None


def refuse(error: UsageError, inv: Invocation) -> int:
    """Print what HTCondor's tool of the name that was called says of ``error``; returns its exit status."""
    tool = _TOOLS.get(inv.called, _Tool())
    names = {"called": inv.called, "word": "", "wants": "another argument"}
    status = _STATUS.get(inv.called, 1)
    odd = re.match(r"unrecognized arguments: (\S+)", error.message)
    if isinstance(error, UnknownOptionError) or odd:
        word = error.word if isinstance(error, UnknownOptionError) else odd[1] if odd else ""
        if tool.unknown:
            inv.err(tool.unknown.format(**names | {"word": word}))
        if not tool.bare:
            usage(inv, out=tool.usage_out)
    elif isinstance(error, MissingValueError):
        wants = _WANTS.get((inv.called, error.option), "another argument")
        if not tool.missing:
            usage(inv, out=tool.usage_out)
            return 1
        text = tool.missing.format(**names | {"word": f"-{error.option}", "wants": wants})
        if inv.called == "condor_status" and error.option == "subsystem":
            text = text.replace("-help", "-help subsys")
        if inv.called == "condor_config_val" and error.option == "local-name":
            text = text.replace("local-name", "local_name")
        inv.err(text)
        if tool.missing_usage:
            usage(inv, out=tool.usage_out)
        return 1 if inv.called == "condor_drain" else status
    elif said := _said_of_value(error.message, inv):
        text, with_usage = said
        inv.err(text)
        if with_usage:
            usage(inv)
    else:
        inv.err(error.message if getattr(error, "bare", False) else f"{inv.called}: {error}")
    return 1 if inv.called in _BY_OPTION and not isinstance(error, UnknownOptionError) else status


_NO_DAEMON = r"the pool has no (?:schedd|startd|machine or slot) (?:named )?'?(?P<name>[^\s']+).*"
#: Values that are wrong, by tool: a pattern of ours, what stands in its place, and whether the usage follows.
_VALUES: dict[str, list[tuple[str, str, bool]]] = {
    "condor_tail": [
        (r"'(?P<word>.*)' is not a job id", "Invalid Job ID: {word}", True),
        (r"-maxbytes needs a whole number, not '(?P<word>.*)'", "Error: maxbytes ({word}) is not valid", True),
    ],
    "condor_ssh_to_job": [(r"'(?P<word>.*)' is not a job id", "Invalid job id: {word}\n", False)],
    "condor_submit": [
        (
            r"-maxjobs needs a whole number, not '(?P<word>.*)'",
            "Error: Unable to convert argument ({word}) to a number for -maxjobs.",
            False,
        ),
        (
            r"more than one description: .* (?P<word>\S+)",
            "\nERROR: Failed to open command file ({word}) (No such file or directory)",
            False,
        ),
    ],
    **{
        f"condor_token_{verb}": [
            (r"'(?P<word>.*)' is not a lifetime", "{called}: Invalid argument for -lifetime: {word}.", False)
        ]
        for verb in ("create", "fetch", "request", "request_auto_approve")
    },
    "condor_advertise": [(r"there is no command '(?P<word>.*)'", "Unknown command name {word}", True)],
    "condor_qedit": [
        (r"(?P<word>Update of immutable .*)", "{word}\nTransaction failed.  No attributes were set.", False)
    ],
    "condor_history": [
        (
            r"-af needs at least one attribute",
            "Error: Argument -af requires at least one attribute parameter\n\t\te.g. condor_history -af ClusterId",
            False,
        )
    ],
    "condor_who": [
        (
            r"-af needs at least one attribute",
            'Error: Argument -af requires at least one attribute parameter\nUse "condor_who -help" for details',
            False,
        )
    ],
    "condor_status": [
        (
            r"-af needs at least one attribute",
            'Error: Argument -af requires at least one attribute parameter\nUse "condor_status -help" for details',
            False,
        )
    ],
}


def _said_of_value(message: str, inv: Invocation) -> tuple[str, bool] | None:
    """What HTCondor's tool says of a value that is wrong, and whether its usage follows; None: it has no words."""
    for ours, theirs, with_usage in _VALUES.get(inv.called, ()):
        if found := re.fullmatch(ours, message, re.DOTALL):
            return theirs.format(**found.groupdict(), called=inv.called), with_usage
    return None


_ANOTHER_POOL = "Can't find address for {name}\nPerhaps you need to query another pool."
_NO_NEGOTIATOR = r"the pool has no negotiator named '?(?P<name>[^\s']+).*"
_CANNOT_READ = r"cannot read (?:\S*/)?(?P<name>\S+): (?P<why>.*)"
_NO_JOB = r"there is no job (?P<job>\S+) in the queue.*"
_ACT_VERBS = {
    "rm": "remove", "hold": "hold", "release": "release", "suspend": "suspend", "continue": "continue",
    "vacate_job": "vacate",
}  # fmt: skip
#: Failures in HTCondor's words: a pattern of ours, and what stands in its place.
_FAILURES: dict[str, list[tuple[str, str]]] = {
    "condor_q": [(_NO_DAEMON, "Error: Collector has no record of schedd/submitter")],
    "condor_submit": [(_NO_DAEMON, "\nERROR: Can't find address of schedd {name}")],
    "condor_config_val": [
        (
            r"the pool has no (?P<kind>\w+) named '?(?P<name>[^\s']+).*",
            "Can't find address for {kind} '{name}' in local pool\nPerhaps you need to query another pool.",
        )
    ],
    "condor_reschedule": [
        (
            _NO_DAEMON,
            f"Can't find address for schedd {{name}}\n{_ANOTHER_POOL}",
        )
    ],
    "condor_vacate": [
        (
            _NO_DAEMON,
            f"Can't find address for startd {{name}}\n{_ANOTHER_POOL}",
        )
    ],
    "condor_prio": [(_NO_DAEMON, "condor_prio: No such schedd named {name} in local pool")],
    "condor_qedit": [(_NO_DAEMON, "condor_qedit: No such schedd named {name} in local pool")],
    "condor_history": [
        (_NO_DAEMON, "Unable to locate remote schedd (name={name}, pool=)."),
        (r"cannot read the event log (?:\S*/)?(?P<name>\S+): .*", "Error: Can't open userlog {name}"),
    ],
    "condor_drain": [(_NO_DAEMON, "ERROR: Can't find address for startd {name}")],
    "condor_status": [
        (_NO_DAEMON, "Error: Failed to locate startd {name}\nCan't find address for startd {name}"),
        (r"cannot read (?:\S*/)?(?P<name>\S+): No such file or directory", "Cannot open file {name}: errno: 2"),
    ],
    "condor_tail": [(_NO_JOB, "No such job: {job}")],
    **{
        f"condor_token_request_{verb}": [
            (r"there is no request (?P<id>\S+)", "Remote daemon did not provide information for request ID {id}.")
        ]
        for verb in ("list", "approve")
    },
    "condor_advertise": [(_CANNOT_READ, "couldn't open {name}: {why}")],
    "condor_userprio": [
        (_NO_NEGOTIATOR, "condor_userprio: Can't locate negotiator '{name}' in local pool"),
        (_CANNOT_READ, "Can't open file of userprio ads: {name}"),
    ],
    "condor_ssh_to_job": [(_NO_JOB, "Unable to fetch job ad; is it still in the queue?")],
    **{f"condor_{verb}": [(_NO_DAEMON, "Error: cannot get address of schedd {name}")] for verb in _ACT_VERBS},
}
#: What is said of a constraint that is not an expression.
_BAD_CONSTRAINT = {
    "condor_status": "Error:  invalid constraint",
    "condor_qedit": "condor_qedit: invalid constraint: {text}",
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
    if found := _UNPROVEN.fullmatch(error.message):
        return _said_of_address(found["host"], found["port"], inv) or f"ERROR: {error}"
    return f"ERROR: {error}"


#: No token is sent there: nobody may be there at all.
_UNPROVEN = re.compile(r"no token is sent to (?P<host>[^\s:,]+)(?::(?P<port>\d+))?, which is not reached with TLS")
_ACTS_ON_JOBS = frozenset(f"condor_{verb}" for verb in _ACT_VERBS)
_UNKNOWN_HOST = {
    "condor_status": "Error: unknown host {host}\n"
    "Extra Info: You specified a hostname for a pool (the -pool argument). That\n"
    "should be the Internet host name for the central manager of the pool, but it\n"
    "does not seem to be a valid hostname.  (The DNS lookup failed.)",
    **dict.fromkeys(_ACTS_ON_JOBS, "{called}: unknown host {host}"),
}


def _said_of_address(host: str, port: str | None, inv: Invocation) -> str:
    """What HTCondor's tool says of an address that is none, or of a host that has none; empty for others."""
    if port is None and inv.called in _ACTS_ON_JOBS:
        return (
            f'{inv.called}: "{host}" is not a valid address\nShould be of the form <ip.address.here:port>\n'
            "For example: <123.456.789.123:6789>"
        )
    said = _UNKNOWN_HOST.get(inv.called, "")
    return said.format(called=inv.called, host=host) if said and not _has_address(host) else ""


def _has_address(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def version(inv: Invocation) -> int:
    """What ``-version`` prints: ours, or the release of HTCondor that is followed."""
    if inv.called:
        inv.out(f"{CONDOR_VERSION}\n{condor_platform()}")
    else:
        inv.out(f"slotwise {__version__}")
    return 0


def usage(inv: Invocation, *, out: bool = False) -> None:
    """One line of usage."""
    line = f"Usage: {inv.called} [options] ...   ({inv.called} -help tells the options)"
    inv.out(line) if out else inv.err(line)

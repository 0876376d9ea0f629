"""``slotwise prio, qedit``: change attributes of jobs in the queue."""

from __future__ import annotations

import re

import grpc

from slotwise.classad import ExprTree, new_syntax
from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, UnknownOptionError, parse
from slotwise.cli.jobs.act import COMMON, NothingNamedError, refuse_json_of_htcondor, result_json, selection, stub
from slotwise.errors import AdSyntaxError, UsageError
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error


def prio(args: list[str], inv: Invocation) -> int:
    """Set (``-p n``) or change (``+n``, ``-n``) the priority of jobs."""
    change: int | None = None
    rest: list[str] = []
    for place, word in enumerate(args):
        if re.fullmatch(r"[+-]\d+", word) and change is None and (place == 0 or args[place - 1] != "-p"):
            change = int(word)
        else:
            rest.append(word)
    whose = [Option("allusers", 8, stands_for="all"), Option("a", 1, stands_for="all")]
    parsed, skipped = _known(rest, [*COMMON, Option("p", 1, 1), *whose], inv)
    if inv.called and parsed.has("pool") and not parsed.has("name"):
        inv.err("condor_prio: -pool also requires -n to be specified")
        return 1
    value = parsed.value("p")
    named = parsed.words or parsed.has("constraint") or parsed.has("all")
    if inv.called and change is not None and not named and not parsed.has("help"):
        return 0  # as HTCondor's tool
    if inv.called and value is None and change is None and not parsed.has("help"):
        if args:
            inv.err("You must specify a new priority or priority adjustment.")
        htcondor_words.usage(inv)
        return 1
    if parsed.has("help") or (value is None and change is None):
        inv.out("usage: slotwise prio [-p N | +N | -N] CLUSTER | CLUSTER.PROC | USER | -constraint EXPR | -all")
        inv.out(
            "  options: -json (for programs), -name SCHEDD, -pool HOST:PORT, -address ADDRESS (another access point)"
        )
        return 0 if parsed.has("help") else 1
    for word in skipped:
        inv.err(f'Warning: unrecognized "{word}" skipped')
    request = schedd_pb2.EditRequest()
    if value is not None:
        if not re.fullmatch(r"[+-]?\d+", value):
            raise UsageError(f"-p needs a whole number, not {value!r}")
        request.set["JobPrio"] = value.lstrip("+")
    else:
        request.prio_relative, request.prio_change = True, change or 0
    return _edit(request, "prio", parsed, parsed.words, inv, quiet=True)


def _known(args: list[str], options: list[Option], inv: Invocation) -> tuple[Parsed, list[str]]:
    """What is known of the words and options, and the options that HTCondor's tool passes over, with a warning."""
    rest = list(args)
    skipped: list[str] = []
    while True:
        try:
            parsed = parse(rest, options)
        except UnknownOptionError as error:
            if not inv.called or len(rest) < 2:
                raise
            rest.remove(error.word)
            skipped.append(error.word)
            continue
        return parsed, skipped


def qedit(args: list[str], inv: Invocation) -> int:
    """Set attributes of jobs: ``qedit JOBS NAME VALUE [NAME VALUE ...]``, or from a file."""
    which = [Option("owner", 1, 1), Option("jobids", 1, 1)]
    options = [*COMMON, *which, Option("edits", 1, 1), Option("dry-run", 2), Option("forward", 3)]
    parsed = parse(_protected(args), options)
    if inv.called and not args:
        htcondor_words.usage(inv)
        return 1
    if parsed.has("help") or not args:
        inv.out("usage: slotwise qedit CLUSTER | CLUSTER.PROC | USER | -constraint EXPR  NAME VALUE [NAME VALUE ...]")
        inv.out("  options: -edits FILE (lines NAME = VALUE; - is standard input)  -dry-run  -json")
        inv.out("           -owner USER  -jobids ID,ID ...")
        return 0 if parsed.has("help") else 1
    words = [word.removeprefix(_KEPT) for word in parsed.words]
    try:
        jobs, pairs = _split(words, parsed)
    except NoValueError as error:
        if not inv.called:
            raise
        if refusal := next(filter(None, (_refused(name, text) for name, text in error.before)), ""):
            inv.err(f"{refusal}\nTransaction failed.  No attributes were set.")
            return 1
        inv.err(f"condor_qedit : expression required after attribute {error.attribute}")
        htcondor_words.usage(inv)
        return 1
    request = schedd_pb2.EditRequest(dry_run=parsed.has("dry-run"))
    for name, text in pairs:
        if inv.called and (refusal := _refused(name, text)):
            inv.err(f"{refusal}\nTransaction failed.  No attributes were set.")
            return 1
        request.set[name] = new_syntax(text)
    if (file := parsed.value("edits")) is not None:
        edits = inv.stdin.read() if file == "-" else inv.path(file).read_text(errors="surrogateescape")
        for line in edits.splitlines():
            name, equals, text = line.partition("=")
            if equals and not line.lstrip().startswith("#"):
                request.set[name.strip()] = new_syntax(text.strip())
    if not request.set and inv.called:
        inv.err("condor_qedit : Error - no attributes specifed.")
        htcondor_words.usage(inv)
        return 1
    if not request.set:
        raise UsageError("no attributes were given", hint="give NAME VALUE pairs after the jobs")
    return _edit(request, "qedit", parsed, jobs, inv)


class NoValueError(UsageError):
    """An attribute came without a value."""

    def __init__(self, attribute: str, before: list[tuple[str, str]]) -> None:
        super().__init__(f"the attribute {attribute} has no value")
        self.attribute = attribute
        self.before = before


#: Marks words that look like options but are values (negative numbers, expressions).
_KEPT = "\0"


def _protected(args: list[str]) -> list[str]:
    """Values that begin with a dash are marked, so that they are not taken for options."""
    return [_KEPT + word if re.fullmatch(r"-[\d(].*", word) else word for word in args]


def _split(words: list[str], parsed: Parsed) -> tuple[list[str], list[tuple[str, str]]]:
    """Jobs and NAME VALUE pairs. ``NAME=VALUE`` in one word is also understood."""
    jobs = [parsed.value("owner") or "", *(parsed.value("jobids") or "").replace(",", " ").split()]
    jobs = [job for job in jobs if job]
    rest = list(words)
    if not (jobs or parsed.has("constraint") or parsed.has("all")) and rest:
        jobs.append(rest.pop(0))
        while rest and re.fullmatch(r"\d+(\.\d+)?", rest[0]):
            jobs.append(rest.pop(0))
    pairs: list[tuple[str, str]] = []
    while rest:
        word = rest.pop(0)
        name, equals, text = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*\s*", name):
            pairs.append((name.strip(), text.strip()))
        elif rest:
            pairs.append((word, rest.pop(0)))
        else:
            raise NoValueError(word, pairs)
    return jobs, pairs


def _refused(name: str, text: str) -> str:
    """What HTCondor's tool says of an edit that it does not try; empty when it does."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return f'Update aborted, illegal attribute-name specified for attribute "{name.partition("=")[0]}".'
    if name.lower() in ("clusterid", "procid"):
        return f'Update of immutable attribute "{name}" is not allowed.'
    try:
        ExprTree(text, old=True)
    except AdSyntaxError:
        return f"Update aborted, illegal value for : {name}"
    return ""


def _edit(
    request: schedd_pb2.EditRequest,
    name: str,
    parsed: Parsed,
    words: list[str],
    inv: Invocation,
    *,
    quiet: bool = False,
) -> int:
    refuse_json_of_htcondor(parsed, inv)
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    try:
        request.jobs.CopyFrom(selection(parsed, name, words, inv))
    except NothingNamedError:
        return 1
    target = stub(parsed, inv)
    try:
        if inv.called and not quiet and (missing := _missing(request, target)):
            return _not_all_edited(request, missing, inv)
        reply = target.Edit(request)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    done = reply.totals.get("success", 0)
    if parsed.has("json"):
        inv.out(result_json(dict(reply.totals), {one.id: one.result for one in reply.jobs}))
        return 0 if done and len(reply.totals) == 1 else 1
    if inv.called and not done:
        return _nothing_edited(request, parsed, inv, quiet=quiet)
    for one in reply.jobs:
        if one.result == "not_found" and quiet and inv.called:
            inv.err(f"Couldn't retrieve current priority for {one.id}.")
        elif one.result == "not_found":
            inv.err(f"Job {one.id} not found")
        elif one.result == "permission_denied":
            inv.err(f"Permission denied to edit job {one.id}")
    if done and not quiet:
        for attribute in sorted(request.set, key=str.lower):
            set_it = "Can Set" if inv.called and request.dry_run else "Set"
            inv.out(f'{set_it} attribute "{attribute}" for {done} matching jobs.')
    if not done:
        inv.err("No jobs were changed.")
    return 0 if done and (len(reply.totals) == 1 or (quiet and inv.called)) else 1


def _missing(request: schedd_pb2.EditRequest, target: schedd_pb2_grpc.ScheddStub) -> str:
    """The first of several jobs that is not there; HTCondor edits jobs named one by one all or not at all."""
    ids = request.jobs.ids
    if len(ids) < 2 or not all("." in name for name in ids):
        return ""
    trial = schedd_pb2.EditRequest()
    trial.CopyFrom(request)
    trial.dry_run = True
    return next((one.id for one in target.Edit(trial).jobs if one.result == "not_found"), "")


def _not_all_edited(request: schedd_pb2.EditRequest, missing: str, inv: Invocation) -> int:
    attribute = min(request.set, key=str.lower)
    inv.err(f'Failed to set attribute "{attribute}" for job {missing}.')
    inv.err("Queue transaction failed.  No attributes were set.")
    return 1


def _nothing_edited(request: schedd_pb2.EditRequest, parsed: Parsed, inv: Invocation, *, quiet: bool) -> int:
    """What HTCondor's tools say when no job was changed: condor_prio names jobs only that were named one by one."""
    ids = list(request.jobs.ids)
    if quiet:
        for name in (name for name in ids if "." in name):
            inv.err(f"Couldn't retrieve current priority for {name}.")
        return 0
    attribute = min(request.set, key=str.lower)
    if ids and all("." in name for name in ids):
        inv.err(f'Failed to set attribute "{attribute}" for job {ids[0]}.')
    else:
        clauses = [f"(ClusterId == {name} )" for name in ids] + [f'(Owner=="{name}")' for name in request.jobs.owners]
        clauses += [f"({one.values[0]})" for one in parsed.all("constraint")]
        inv.err(f'Failed to set attribute "{attribute}" by constraint: ( {" || ".join(clauses)} )')
    inv.err("Queue transaction failed.  No attributes were set.")
    return 1

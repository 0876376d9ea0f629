"""`slotwise submit`: queue jobs from a submit description. Options as condor_submit has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common.options import REST, Option, Parsed, UnknownOptionError, parse
from slotwise.cli.jobs import htcondor_submit, interactive, submit_doubts, submit_rpc
from slotwise.cli.jobs.submit_args import SubmitArgs
from slotwise.errors import SubmitError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config
    from slotwise.submit import Submission
    from slotwise.wire.gen import schedd_pb2

_MOST_DOTS = 50

OPTIONS = [
    Option("verbose", 1),
    Option("terse", 3),
    Option("disable", 3),
    Option("debug", 2),
    Option("dry-run", 3, 1),
    Option("spool", 1),
    Option("file", 2, 1),
    Option("digest", 6, 1),
    Option("factory", 2),
    Option("address", 2, 1),
    Option("remote", 1, 1),
    Option("name", 1, 1),
    Option("append", 1, 1),
    Option("batch-name", 1, 1),
    Option("batch-id", 7, 1),
    Option("queue", 1, REST),
    Option("maxjobs", 3, 1),
    Option("single-cluster", 3),
    Option("pool", 2, 1),
    Option("unused", 1),
    Option("dump", 2, 1),
    Option("force-mpi-universe", 7),
    Option("allow-crlf-script", 8),
    Option("help", 1),
    Option("capabilities", 3),
    Option("interactive", 1),
    Option("json"),
    Option("wait"),
]
USAGE = """usage: slotwise submit [options] [KEY=VALUE ...] [FILE]
Queues jobs from a submit description: FILE, or standard input when FILE is - or missing. KEY=VALUE stands before it.
Output
  -terse                print only the first and last job id of each cluster
  -json                 print the clusters as one JSON object, with the warnings
  -verbose              print each job's ad (also when the description comes from -)
  -unused               turn warnings about macros that are not used off (on, where the configuration has them off)
The description
  -append STATEMENT     a statement that stands before each queue statement (-a); several may be given
  -queue ARGUMENTS      a queue statement in place of the description's; up to the next option
  -file FILE            the description
  -batch-name NAME, -batch-id ID       the batch of the jobs
  -maxjobs N, -single-cluster          queue nothing when there are more jobs, or clusters
  -factory              jobs are made when they are needed (as max_materialize)
  -disable              do not check files; -allow-crlf-script: scripts may have DOS line ends
Afterwards
  -wait                 wait until the jobs have ended; the exit status is 3 when one was removed or did not end
                        with 0, and 1 when all that are left are held
Where
  -name SCHEDD, -pool HOST:PORT, -address ADDRESS     another access point
  -spool                send the input files along; `slotwise transfer-data` fetches the results
  -remote SCHEDD        as -name and -spool
A shell
  -interactive          a shell in a slot with what the description, if any, asks for; the job ends with it
Instead of queueing
  -dry-run FILE, -dump FILE            write the jobs' ads to a file (-: the screen)
  -dry-run:jobset FILE                 with what the description says of job sets
  -capabilities         what the access point can do"""


def main(args: list[str], inv: Invocation) -> int:
    """Queue jobs; exit status 0, or 1 when nothing was queued."""
    parsed = parse(args, OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if inv.called and any(not one.values for one in parsed.all("queue")):
        inv.err("condor_submit: -queue requires at least one argument")
        return 1
    if inv.called and any(word.startswith("=") for word in parsed.words):
        inv.err("condor_submit: invalid attribute name '' for attrib=value assigment")
        return 1
    for option in ("json", "wait"):
        if inv.called and parsed.has(option):
            raise UnknownOptionError(f"-{option}")
    _refuse_what_cannot_be(parsed)
    inv = inv.aimed(parsed.value("pool"), parsed.value("remote") or parsed.value("name"))
    if parsed.has("capabilities"):
        return submit_rpc.capabilities(inv, parsed, _config(inv))
    if inv.called:
        return htcondor_submit.run(parsed, inv, _submit)
    return _submit(parsed, inv)


def _submit(parsed: Parsed, inv: Invocation) -> int:
    """Read the description and do with its jobs what the options say."""
    asked = _read_args(parsed, inv)
    if inv.called:
        htcondor_submit.settle_queue(asked)
    if parsed.has("interactive"):
        interactive.shape(asked)
    config = _config(inv)
    try:
        submission = _read(asked, config, inv)
    except SubmitError as error:
        if not (inv.called and htcondor_submit.lacks_input(error)):
            raise
        asked.unchecked = True
        submission = _read(asked, config, inv)
    if parsed.has("factory") and submission.count and not submission.is_late:
        asked.append.append(f"max_materialize = {submission.count}")
        submission = _read(asked, config, inv)
    _warn(inv, submission, unused=_warns_of_unused(asked, config))
    _check(asked, submission)
    elsewhere = asked.spool or inv.pool is not None or inv.daemon_name is not None or parsed.has("address")
    if not inv.called and not elsewhere and not parsed.has("disable"):
        for text in submit_doubts.before(submission):
            inv.err(f"WARNING: {text}")
    target = parsed.value("dry-run") or parsed.value("dump")
    if target is not None:
        if inv.called and parsed.has("dump") and target != "-":
            inv.out("Storing job ClassAd(s)" + "." * min(submission.count, _MOST_DOTS))
        shows_sets = _shows_sets(parsed)
        said = parsed.has("dry-run") and not (inv.called and parsed.has("terse"))
        status = _dry_run(inv, submission, target, said=said, ends=said or parsed.has("dump"), shows_sets=shows_sets)
        if parsed.has("dry-run") and not said:
            for number, cluster in enumerate(submission.clusters, start=1):
                inv.out(f"{number}.0 - {number}.{cluster.count - 1}")
        if inv.called and parsed.has("dump") and target != "-":
            for number, cluster in enumerate(submission.clusters, start=1):
                inv.out(f"{cluster.count} job(s) submitted to cluster {number}.")
        return status
    if asked.spool:
        from slotwise.client.spool import check

        check(made.job(proc) for made in submission.clusters for proc in range(made.count))
    first = 0
    if submission.mentions_cluster:
        first = submit_rpc.reserve(inv, parsed, len(submission.clusters))
        submission = _read(asked, config, inv, first)
    if inv.caller_gone():
        return 1  # killed: who kills a submission expects no jobs of it
    reply = submit_rpc.send(inv, parsed, submission, first, spool=asked.spool)
    _report(inv, asked, submission, reply)
    if not inv.called and not elsewhere:
        for text in submit_doubts.after(submission, inv):
            job = f"{reply.clusters[0].cluster_id}.{reply.clusters[0].first_proc}"
            inv.err(f"WARNING: {text}; `slotwise analyze {job}` says what the pool has")
    if asked.spool:
        submit_rpc.spool(inv, parsed, submission, reply)
    if parsed.has("wait"):
        from slotwise.cli.jobs import submit_wait

        return submit_wait.until_ended([one.cluster_id for one in reply.clusters], parsed.value("address"), inv)
    if parsed.has("interactive"):
        return interactive.visit(f"{reply.clusters[0].cluster_id}.0", parsed, inv)
    return 0


def _refuse_what_cannot_be(parsed: Parsed) -> None:
    if parsed.has("wait") and (parsed.has("interactive") or parsed.has("dry-run") or parsed.has("dump")):
        raise UsageError("-wait is for jobs that are queued and run by themselves", hint="leave it out")
    if parsed.has("interactive") and (parsed.has("spool") or parsed.has("remote")):
        raise UsageError(
            "-interactive and -spool exclude each other", hint="the shell's files are in its job's directory"
        )
    if parsed.has("force-mpi-universe"):
        raise UsageError("-force-mpi-universe: there is no MPI universe", hint="use universe = vanilla")
    if parsed.has("digest"):
        raise UsageError("-digest is for HTCondor's own tools", hint="give the description itself, with -factory")


def _read_args(parsed: Parsed, inv: Invocation) -> SubmitArgs:
    """What the words and options mean."""
    before = [word for word in parsed.words if "=" in word]
    files = [word for word in parsed.words if "=" not in word]
    files += [one.values[0] for one in parsed.all("file")]
    if len(files) > 1:
        raise UsageError(f"more than one description: {' '.join(files)}", hint="give one file")
    queues = [" ".join(one.values) for one in parsed.all("queue")]
    asked = SubmitArgs(parsed, "", files[0] if files else "-", before, names_stdin=files[:1] == ["-"])
    for one in parsed.all("append"):
        statement = one.values[0].strip()
        first, _, rest = statement.partition(" ")
        if first.lower() == "queue":
            queues.append(rest.strip() or "1")
        else:
            asked.append.append(statement)
    if len(queues) > 1:
        raise UsageError("only one -queue command allowed", hint=f"give one of {', '.join(map(repr, queues))}")
    asked.queue = queues[0] if queues else None
    for option in ("batch-name", "batch-id"):
        if (value := parsed.value(option)) is not None:
            asked.append.append(f"{option.replace('-', '_')} = {value}")
    if files and files[0] != "-":
        asked.text = _text_of(files[0], inv)
    elif files or (asked.queue is None and not parsed.has("interactive")):
        asked.text = inv.stdin.read()
    else:
        asked.filename = "<command line>"
    return asked


def _text_of(name: str, inv: Invocation) -> str:
    try:
        return inv.path(name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise SubmitError(f"cannot read {name}: {error.strerror}", hint="check the name of the file") from None


def _read(asked: SubmitArgs, config: Config, inv: Invocation, first: int | None = None) -> Submission:
    """Make the jobs.

    :raises SubmitError: names line, command and remedy.
    """
    from slotwise.submit import parse as parse_description

    return parse_description(
        asked.text,
        filename=asked.filename,
        cwd=inv.cwd,
        env=inv.env,
        owner=inv.account,
        config=config,
        queue_args=asked.queue,
        before=asked.before,
        append=asked.append,
        spool=asked.spool,
        check_support=True,
        uid=inv.uid,
        check_files=not (asked.unchecked or asked.parsed.has("disable")),
        first_cluster=first,
    )


def _check(asked: SubmitArgs, submission: Submission) -> None:
    """See that there are jobs, and no more than may be.

    :raises SubmitError: otherwise.
    """
    if not submission.count:
        raise htcondor_submit.NoJobsError
    if asked.spool and submission.is_late:
        raise SubmitError(
            "files cannot be spooled for jobs that are made later",
            hint="leave out max_materialize and max_idle, or -spool",
        )
    most = asked.parsed.number("maxjobs") or 0
    if 0 < most < submission.count:
        raise SubmitError(f"there are {submission.count} jobs, and -maxjobs allows {most}", hint="nothing was queued")
    if asked.parsed.has("single-cluster") and len(submission.clusters) > 1:
        raise SubmitError(
            f"there are {len(submission.clusters)} clusters, and -single-cluster allows one", hint="nothing was queued"
        )


def _config(inv: Invocation) -> Config:
    from slotwise.config import load

    config = load(subsystem="SUBMIT", env=inv.env, home=inv.home, cwd=inv.cwd)
    inv.pass_on_warnings(config)
    return config


def _warns_of_unused(asked: SubmitArgs, config: Config) -> bool:
    usual = config.get_bool("WARN_ON_UNUSED_SUBMIT_FILE_MACROS") is not False
    return usual != asked.parsed.has("unused")


def _warn(inv: Invocation, submission: Submission, *, unused: bool) -> None:
    for text in submission.warnings:
        if inv.called and not submission.count and "it makes no jobs" in text:
            continue  # HTCondor's tool says that of all queue statements together
        if inv.called and "is not defined and expands to nothing" in text:
            continue  # HTCondor's tool says nothing of it
        if unused or "was not used" not in text:
            if inv.called:
                text = htcondor_submit.warning(text)
            inv.err(f"WARNING: {text}")


def _shows_sets(parsed: Parsed) -> bool:
    """Whether a dry run shows what the description says of job sets: ``-dry-run:jobset``."""
    asked = {given.letters.lower() for given in parsed.all("dry-run")}
    if unknown := asked - {"", "def", "full", "jobset"}:
        raise UsageError(
            f"unknown option {min(unknown)} for -dry-run:<opts>", hint="one of def, full (all attributes), jobset"
        )
    return "jobset" in asked


def _of_sets(submission: Submission) -> Iterator[str]:
    from slotwise.table import unpack_ads

    for cluster in submission.clusters:
        for ad in unpack_ads(pack) if (pack := cluster.job_set()) else ():
            ad["JobSetName"] = cluster.ad.get("JobSetName")
            yield f"----- jobset -----\n{ad.print_old()}-----\n\n"


def _dry_run(
    inv: Invocation, submission: Submission, out: str, *, said: bool, ends: bool, shows_sets: bool = False
) -> int:
    """Write all ads in long form, as if they were queued. ``ends``: HTCondor's tool ends the screen's last line."""

    def ads() -> Iterator[str]:
        if inv.called:
            for number, cluster in enumerate(submission.clusters, start=1):
                yield from htcondor_submit.ads(number, [cluster.job(proc) for proc in range(cluster.count)])
            return
        for number, cluster in enumerate(submission.clusters, start=1):
            for proc in range(cluster.count):
                ad = cluster.job(proc)
                ad["ClusterId"] = number
                ad["ProcId"] = proc
                yield ad.print_old() + "\n"

    if out == "-":
        if said and inv.called:
            inv.out("Dry-Run job(s)", end="")
        for text in ads():
            inv.out(text + ("." if said and inv.called else ""), end="")
        if inv.called and ends:
            inv.out("")
        for text in _of_sets(submission) if shows_sets else ():
            inv.out(text, end="")
    else:
        with Path(inv.path(out)).open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(ads())
            file.writelines(_of_sets(submission) if shows_sets else ())
    if said:
        if out != "-" or not inv.called:
            inv.out("Dry-Run job(s)" + "." * min(submission.count, _MOST_DOTS))
        for number, cluster in enumerate(submission.clusters, start=1):
            inv.out(f"{cluster.count} job(s) dry-run to cluster {number}.")
    return 0


def _report(inv: Invocation, asked: SubmitArgs, submission: Submission, reply: schedd_pb2.SubmitReply) -> None:
    if reply.warnings:
        inv.err("WARNING: Committed job submission into the queue with the following warning(s):")
    for text in reply.warnings:
        inv.err(f"WARNING: {text}")
    if asked.parsed.has("json"):
        rows = [
            {"ClusterId": one.cluster_id, "FirstProcId": one.first_proc, "Jobs": one.num_procs}
            for one in reply.clusters
        ]
        inv.out(json.dumps({"Clusters": rows, "Warnings": [*submission.warnings, *reply.warnings]}))
        return
    if asked.parsed.has("terse"):
        for cluster in reply.clusters:
            last = cluster.first_proc + cluster.num_procs - 1
            inv.out(f"{cluster.cluster_id}.{cluster.first_proc} - {cluster.cluster_id}.{last}")
        return
    if asked.verbose:
        for made, cluster in zip(submission.clusters, reply.clusters, strict=True):
            for proc in range(made.count):
                inv.out(f"** Proc {cluster.cluster_id}.{cluster.first_proc + proc}:")
                inv.out(made.job(proc).print_old())
    inv.out("Submitting job(s)" + "." * min(submission.count, _MOST_DOTS))
    for cluster in reply.clusters:
        inv.out(f"{cluster.num_procs} job(s) submitted to cluster {cluster.cluster_id}.")

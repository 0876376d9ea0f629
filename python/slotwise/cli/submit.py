"""`slotwise submit`: queue jobs from a submit description. Options as condor_submit has them."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.cli.parser import Parser
from slotwise.errors import SubmitError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.invocation import Invocation
    from slotwise.config import Config
    from slotwise.submit import Submission

#: Submissions up to this many jobs go in one message.
_ONE_MESSAGE = 5_000
_TIMEOUT_S = 600.0


def _parser(inv: Invocation) -> Parser:
    parser = Parser(
        inv,
        "submit",
        "Queue jobs from a submit description file, or from standard input when FILE is - or missing.",
        usage="slotwise submit [options] [key=value ...] [FILE]",
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="WORD", help="statements key=value that stand before the file, and the file")
    add("-terse", "--terse", action="store_true", help="print only the first and last job id")
    add("-verbose", "-v", "--verbose", action="store_true", help="print each job's ad")
    add(
        "-append",
        "-a",
        "--append",
        action="append",
        default=[],
        metavar="STATEMENT",
        help="a statement that stands before each queue statement",
    )
    add("-queue", "--queue", nargs="+", metavar="ARG", help="queue statement in place of the description's")
    add("-batch-name", "--batch-name", metavar="NAME", help="name of the batch of jobs")
    add("-dry-run", "--dry-run", metavar="OUT", help="write the jobs' ads to a file (- is the screen), queue nothing")
    add("-spool", "--spool", action="store_true", help="spool the input files at the access point")
    add("-disable", "--disable", action="store_true", help="do not check that the executable is there")
    add("-name", "--name", metavar="SCHEDD", help="the access point (there is one per pool)")
    add("-unused", "--unused", action="store_true", help="do not warn about keys that were not used")
    return parser


def main(args: list[str], inv: Invocation) -> int:
    """Queue jobs; exit status 0, or 1 when nothing was queued."""
    options = _parser(inv).take(_with_queue_last(args))
    if options is None:
        return 0
    text, filename, before = _description(options.words, inv)
    if options.batch_name:
        options.append.append(f"batch_name = {options.batch_name}")
    config = _config(inv)
    wanted: dict[str, Any] = {
        "filename": filename,
        "cwd": inv.cwd,
        "env": inv.env,
        "owner": _owner(inv),
        "config": config,
        "queue_args": " ".join(options.queue) if options.queue else None,
        "before": before,
        "append": options.append,
        "spool": options.spool,
        "check_files": not options.disable,
    }
    from slotwise.submit import parse

    submission = parse(text, **wanted)
    _warn(inv, submission, unused=not options.unused)
    if not submission.count:
        raise SubmitError("no jobs queued", hint="the description needs a queue statement that makes jobs")
    if options.dry_run:
        return _dry_run(inv, submission, options.dry_run)
    first = 0
    if submission.mentions_cluster:
        first = _reserve(inv, len(submission.clusters))
        submission = parse(text, **wanted, first_cluster=first)
    reply = _send(inv, submission, first)
    _report(inv, submission, reply, options)
    return 0


def _with_queue_last(args: list[str]) -> list[str]:
    """Words behind ``-queue`` up to the next option belong to it; a lone file before it stays a word."""
    for at, word in enumerate(args):
        if word in ("-queue", "--queue"):
            end = next((i for i in range(at + 1, len(args)) if args[i].startswith("-") and len(args[i]) > 1), len(args))
            return [*args[:at], *args[end:], *args[at:end]]
    return args


def _description(words: list[str], inv: Invocation) -> tuple[str, str, list[str]]:
    """Text and name of the description, and statements that stand before it."""
    before = [word for word in words if "=" in word]
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise UsageError(f"more than one description: {' '.join(files)}", hint="give one file")
    if not files or files[0] == "-":
        return inv.stdin.read(), "-", before
    path = inv.path(files[0])
    try:
        return path.read_text(encoding="utf-8", errors="replace"), files[0], before
    except OSError as error:
        raise SubmitError(f"cannot read {files[0]}: {error.strerror}", hint="check the name of the file") from None


def _config(inv: Invocation) -> Config:
    from slotwise.config import load

    return load(subsystem="SUBMIT", env=inv.env, home=inv.home, cwd=inv.cwd)


def _owner(inv: Invocation) -> str:
    try:
        return pwd.getpwuid(inv.uid).pw_name
    except KeyError:
        return inv.env.get("USER", "")


def _warn(inv: Invocation, submission: Submission, *, unused: bool) -> None:
    for text in submission.warnings:
        if unused or "was not used" not in text:
            inv.err(f"WARNING: {text}")


def _dry_run(inv: Invocation, submission: Submission, out: str) -> int:
    """Write all ads in long form."""

    def ads() -> Iterator[str]:
        for number, cluster in enumerate(submission.clusters, start=1):
            for proc in range(cluster.count):
                ad = cluster.job(proc)
                ad["ClusterId"] = number
                ad["ProcId"] = proc
                yield ad.print_old() + "\n"

    if out == "-":
        for text in ads():
            inv.out(text, end="")
    else:
        with Path(inv.path(out)).open("w", encoding="utf-8") as file:
            file.writelines(ads())
    inv.out(f"Dry-run: {submission.count} job(s) in {len(submission.clusters)} cluster(s), none submitted.")
    return 0


def _call(inv: Invocation, call: Any, request: Any) -> Any:
    import grpc

    from slotwise.wire.status import to_error

    try:
        return call(request, metadata=inv.metadata(), timeout=_TIMEOUT_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="the schedd") from None


def _stub(inv: Invocation) -> Any:
    from slotwise.wire.gen import schedd_pb2_grpc

    return inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")


def _reserve(inv: Invocation, count: int) -> int:
    """Cluster ids that the description's file names can contain."""
    from slotwise.wire.gen import schedd_pb2

    reply = _call(inv, _stub(inv).ReserveClusters, schedd_pb2.ReserveClustersRequest(count=count))
    return int(reply.first)


def _send(inv: Invocation, submission: Submission, first: int) -> Any:
    """One message when the submission is small, else a stream; all of it or nothing is queued."""
    from slotwise.wire.gen import schedd_pb2 as pb

    def head(index: int) -> Any:
        cluster_id = first + index if first else 0
        return pb.ClusterSubmission(cluster_ad=submission.clusters[index].pack(), cluster_id=cluster_id)

    if submission.count <= _ONE_MESSAGE:
        bundle = pb.SubmitBundle(client="slotwise submit")
        for index, cluster in enumerate(submission.clusters):
            part = head(index)
            part.procs.count = cluster.count
            part.procs.deltas = cluster.deltas()
            bundle.clusters.append(part)
        return _call(inv, _stub(inv).SubmitOne, bundle)

    def parts() -> Iterator[Any]:
        for index, cluster in enumerate(submission.clusters):
            yield pb.SubmitPart(open_cluster=head(index))
            for count, deltas in cluster.batches():
                yield pb.SubmitPart(more_procs=pb.ProcBatch(count=count, deltas=deltas))
        yield pb.SubmitPart(commit=True)

    return _call(inv, _stub(inv).Submit, parts())


def _report(inv: Invocation, submission: Submission, reply: Any, options: Any) -> None:
    for text in reply.warnings:
        inv.err(f"WARNING: {text}")
    if options.terse:
        for cluster in reply.clusters:
            last = cluster.first_proc + cluster.num_procs - 1
            inv.out(f"{cluster.cluster_id}.{cluster.first_proc} - {cluster.cluster_id}.{last}")
        return
    if options.verbose:
        for made, cluster in zip(submission.clusters, reply.clusters, strict=True):
            for proc in range(made.count):
                inv.out(f"** Proc {cluster.cluster_id}.{cluster.first_proc + proc}:")
                inv.out(made.job(proc).print_old())
    inv.out("Submitting job(s)" + "." * min(submission.count, 50))
    for cluster in reply.clusters:
        inv.out(f"{cluster.num_procs} job(s) submitted to cluster {cluster.cluster_id}.")

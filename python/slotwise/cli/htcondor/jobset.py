"""``htcondor jobset``: sets of jobs, which there are where USE_JOBSETS is true."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from slotwise.classad import quote
from slotwise.classad.values import whole
from slotwise.cli.htcondor.verb import Call, Noun, Verb, plural
from slotwise.errors import NotFoundError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

#: JobSubmitMethod of jobs from ``htcondor jobset submit``.
_METHOD = 5
#: What is said of a set's jobs, in this order; of those that are not in the first list only what there is.
_ALWAYS = ("NumIdle", "NumRunning", "NumCompleted")
_STATES = {
    "NumIdle": "idle", "NumRunning": "running", "NumHeld": "held", "NumCompleted": "completed",
    "NumSuspended": "suspended", "NumRemoved": "removed",
}  # fmt: skip
_DAG_STATES = {f"NumScheduler{state}": state.lower() for state in ("Idle", "Running", "Held", "Completed", "Removed")}


def _submit(options: Namespace, call: Call) -> None:
    from slotwise.cli.htcondor.job_set_file import parse
    from slotwise.client.descriptions import ReadOptions

    name = options.job_set_file
    try:
        text = call.inv.path(name).read_text()
    except OSError as error:
        raise NotFoundError(str(error)) from None
    found = parse(text, name, lambda other: call.inv.path(other).read_text())
    if not found.jobs:
        call.error(f"Warning: No jobs found in {name}")
    if not call.inv.knobs().get_bool("USE_JOBSETS"):
        raise UsageError(
            "Job sets not enabled on this schedd by an administrator, because USE_JOBSETS is false in the "
            "configuration.  Skipping submit.",
            hint="an administrator can set USE_JOBSETS; `batch_name` in submit descriptions keeps jobs together, too",
        )
    clusters: list[int] = []
    with call.schedd() as schedd:
        for index, description in enumerate(found.descriptions()):
            try:
                result = schedd.submit(description, options=ReadOptions(method=_METHOD, check_files=False))
            except SlotwiseError as error:
                call.error(f"Error while submitting job {index} from {name}:\n{error}")
                if clusters:
                    # HTCondor's command asks for a forced removal, which a queued job does not take.
                    constraint = " || ".join(f"ClusterId == {cluster}" for cluster in clusters)
                    schedd.act("remove", constraint, reason=f"Aborted job set {found.name} submission.")
                return
            call.debug(f"Submitted job {index} to job cluster {result.cluster}.")
            clusters.append(result.cluster)
    call.info(f"Submitted job set {found.name} containing {len(clusters)} job clusters.")


def _list(options: Namespace, call: Call) -> None:
    constraint = "" if options.allusers else f"Owner == {quote(call.inv.account)}"
    with call.schedd() as schedd:
        ads = schedd.job_sets(constraint)
    if not ads:
        call.error("No active job sets found.")
        return
    rows = sorted({(str(ad.get("Owner")), str(ad.get("JobSetName"))) for ad in ads})
    width = max(len(owner) for owner, _ in rows)
    for owner, name in [("OWNER", "JOB_SET_NAME"), *rows]:
        call.inv.out(f"{owner:<{width}}  {name}" if options.allusers else name)


def _status(options: Namespace, call: Call) -> None:
    owner = options.owner or call.inv.account
    with call.schedd() as schedd:
        found = schedd.job_sets(f"JobSetName == {quote(options.job_set_name)} && Owner == {quote(owner)}")
        if not found:
            call.error(f'No active job sets found matching "{options.job_set_name}" for user {owner}.')
            return
        ad, *_ = found
        name, of_set = str(ad.get("JobSetName")), f"JobSetId == {whole(ad.get('JobSetId'))}"
        jobs = schedd.query(of_set, ["ClusterId"])
        if len(jobs) < whole(ad.get("NumJobs")) + whole(ad.get("NumSchedulerJobs")) and not options.skip_history:
            call.info(f"{name} may contain completed and/or removed jobs, checking history...")
            call.info("(This may take a while, Ctrl-C to skip.)")
            jobs += schedd.history(of_set, ["ClusterId"])
    said = []
    for states, what in ((_STATES, "job"), (_DAG_STATES, "DAGMan scheduler job")):
        for attribute, state in states.items():
            count = whole(ad.get(attribute))
            if count or attribute in _ALWAYS:
                said.append(f"{count} {what}{plural(count)} {state}")
    call.info(f"{name} currently has {', '.join(said[:-1])}, and {said[-1]}.")
    call.info(f"{name} contains:")
    clusters = Counter(whole(job.get("ClusterId")) for job in jobs)
    lines = sorted(f"\tJob cluster {cluster} with {n} total job{plural(n)}" for cluster, n in clusters.items())
    call.info("\n".join(lines))


def _remove(options: Namespace, call: Call) -> None:
    owner = options.owner or call.inv.account
    constraint = f"JobSetName == {quote(options.job_set_name)} && Owner == {quote(owner)}"
    reason = f"via htcondor jobset remove (by user {call.inv.account})"
    with call.schedd() as schedd:
        result = schedd.act("remove", constraint, reason=reason)
    call.info(f"Removed {result.succeeded} jobs matching job set {options.job_set_name} for user {owner}.")
    if failed := sum(result.totals.values()) - result.succeeded:
        call.error(f"Warning: Could not remove {failed} matching job{plural(failed)}.")


def _name_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job_set_name", help="Job set name")
    parser.add_argument("--owner", help="The owner of the set, if another than yourself")


def _status_arguments(parser: ArgumentParser) -> None:
    _name_arguments(parser)
    parser.add_argument("--skip-history", action="store_true", help="Skip checking history")


NOUN = Noun(
    "Run operations on HTCondor job sets",
    {
        "submit": Verb(
            "Submits a job set when given a job set file",
            _submit,
            lambda parser: parser.add_argument("job_set_file", help="Job set submit file"),
        ),
        "list": Verb(
            "Lists active job sets",
            _list,
            lambda parser: parser.add_argument("--allusers", action="store_true", help="Lists those of all users"),
        ),
        "status": Verb("Displays the status of an active job set", _status, _status_arguments),
        "remove": Verb("Removes a job set", _remove, _name_arguments),
    },
)

"""``htcondor job``: one job submitted, its state in sentences, and its files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.classad import ClassAd
from slotwise.classad.values import number, whole
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.htcondor.verb import Call, Noun, Verb, plural, size, time_span
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.model.job_id import JobId

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

#: JobSubmitMethod of jobs from ``htcondor job submit``.
_METHOD = 3
#: What the sentences about a job are made of.
_ATTRIBUTES = [
    "JobStartDate", "JobStatus", "QDate", "CompletionDate", "EnteredCurrentStatus", "RequestMemory", "MemoryUsage",
    "RequestDisk", "DiskUsage", "HoldReason", "NumShadowStarts", "NumJobStarts", "NumHolds", "TotalSuspensions",
    "JobCurrentStartTransferOutputDate", "CommittedTime", "RemoteWallClockTime", "Iwd", "Out", "Err", "UserLog",
    "TransferInStarted", "TransferInFinished", "JobCoolDownExpiration", "ResidentSetSize", "DiskUsage_RAW",
    "ImageSize",
]  # fmt: skip
_IDLE, _RUNNING, _REMOVED, _COMPLETED, _HELD, _TRANSFERRING, _SUSPENDED = range(1, 8)


def _submit(options: Namespace, call: Call) -> None:
    from slotwise import submit as language
    from slotwise.client.descriptions import ReadOptions

    path = call.inv.path(options.submit_file)
    text = read(path, options.submit_file)
    place = (options.resource or "htcondor").casefold()
    if place != "htcondor":
        raise UsageError(
            f"there are no {options.resource} resources here", hint="without --resource the job runs in this pool"
        )
    if options.annex_name is not None:
        raise UsageError("HPC Annex functionality has not been enabled by your HTCondor administrator.")
    queue = (language.outline(text, cwd=call.inv.cwd).queue or "").strip()
    if queue not in ("", "1"):
        raise UsageError("Can only submit one job at a time", hint="`condor_submit` submits many")
    with call.schedd() as schedd:
        result = schedd.submit(text, count=1, options=ReadOptions(method=_METHOD, check_files=False))
    call.info(f"Job {result.cluster} was submitted.")


def read(path: Path, name: str) -> str:
    """The text of a file that the caller named.

    :raises SlotwiseError: it is not there, or cannot be read.
    """
    if not path.exists():
        raise NotFoundError(f"Could not find file: {name}")
    try:
        return path.read_text()
    except OSError:
        raise SlotwiseError(f"Could not access file: {name}") from None
    except UnicodeDecodeError:
        raise SlotwiseError(f"{name} is not UTF-8 text") from None


def _job(options: Namespace, call: Call) -> ClassAd:
    """The job's ad, from the queue or from the history.

    :raises NotFoundError: there is no such job.
    """
    job = JobId.match(options.job_id)
    if job is None:
        raise UsageError(f"{options.job_id} is not a job", hint="write its id: 12.0, or 12 for its first job")
    constraint = job.first.constraint
    with call.schedd() as schedd:
        found = schedd.query(constraint, _ATTRIBUTES, limit=1)
        if not found and not options.skip_history:
            call.info(f"Job {options.job_id} was not found in the active queue, checking history...")
            call.info("(This may take a while, Ctrl-C to cancel.)")
            found = schedd.history(constraint, _ATTRIBUTES, limit=1)
    if not found:
        raise NotFoundError(f"No job found for ID {options.job_id}.")
    return found[0]


def _status(options: Namespace, call: Call) -> None:
    for line in sentences(_job(options, call), options.job_id, time.time()):
        call.info(line)


def sentences(ad: ClassAd, job: str, now: float) -> list[str]:
    """What is to be said of a job: its state, since when, what it uses, and how much of its time was not lost."""
    state = whole(ad.eval("JobStatus"))
    write = _SENTENCES.get(state)
    if write is None:
        return [f"Job {job} is in an unknown state (JobStatus = {state})."]
    wall = number(ad.eval("RemoteWallClockTime"))
    share = number(ad.eval("CommittedTime")) / wall * 100 if wall > 0 else 0.0
    tense = "had" if state == _COMPLETED else "has"
    return [
        *write(_Told(ad, job, now)),
        f"Job {tense} {share:.1f}% goodput for {time_span(wall)} of wall clock time.",
    ]


class _Told:
    """The parts of the sentences about one job."""

    def __init__(self, ad: ClassAd, job: str, now: float) -> None:
        self.ad = ad
        self.job = job
        self._now = now

    def since(self, attribute: str) -> str:
        """How long ago a moment of the job was."""
        return time_span(max(0.0, self._now - number(self.ad.eval(attribute), self._now)))

    def count(self, attribute: str) -> int:
        return whole(self.ad.eval(attribute))

    def submitted(self) -> str:
        return f"It was submitted {self.since('QDate')} ago."

    def usage(self, lead: str) -> list[str]:
        """What the job used of memory and disk, as far as it is known. ``lead``: "Its last ... was"."""
        found = []
        for what, used, asked, unit in (
            ("memory", "MemoryUsage", "RequestMemory", 1 << 20),
            ("disk", "DiskUsage", "RequestDisk", 1 << 10),
        ):
            value = self.ad.eval(used)
            if isinstance(value, int | float):
                wanted = size(number(self.ad.eval(asked)) * unit)
                found.append(f"{lead.replace('...', f'{what} usage')} {size(value * unit)} out of {wanted} requested.")
        return found

    def requested(self, what: str, attribute: str, unit: int) -> str:
        return f"It requested {size(number(self.ad.eval(attribute)) * unit)} of {what}."

    def times(self, attribute: str, lead: str) -> list[str]:
        """How often something happened; nothing where it never did."""
        count = self.count(attribute)
        return [f"{lead} {count} time{plural(count)}."] if count else []

    def starts(self, least: int) -> list[str]:
        """How often the job was started, from ``least`` attempts on."""
        tried, started = self.count("NumShadowStarts"), self.count("NumJobStarts")
        if tried < least:
            return []
        return [
            f"HTCondor has attempted to start the job {tried} time{plural(tried)}.",
            f"The job has started {started} time{plural(started)}.",
        ]

    def input(self, unfinished: str) -> list[str]:
        """How long its input took."""
        begun, ended = self.ad.eval("TransferInStarted"), self.ad.eval("TransferInFinished")
        if not isinstance(begun, int | float):
            return []
        if not isinstance(ended, int | float):
            return [f"Input file transfer {unfinished}."]
        return [f"Input file transfer took {time_span(max(0.0, ended - begun))}."]

    def cool_down(self) -> list[str]:
        """When the job is tried again, where it cools down."""
        left = number(self.ad.eval("JobCoolDownExpiration")) - self._now
        return [f"The job is in cool down and will be retried in {time_span(left)}."] if left > 0 else []


def _idle(told: _Told) -> list[str]:
    return [
        f"Job {told.job} is currently idle.",
        told.submitted(),
        told.requested("memory", "RequestMemory", 1 << 20),
        told.requested("disk space", "RequestDisk", 1 << 10),
        *told.times("NumHolds", "It has been held"),
        *told.starts(1),
        *told.cool_down(),
    ]


def _running(told: _Told) -> list[str]:
    return [
        f"Job {told.job} is currently running.",
        f"It started running {told.since('JobStartDate')} ago.",
        told.submitted(),
        *told.usage("Its current ... is"),
        *told.times("TotalSuspensions", "It has been suspended"),
        *told.times("NumHolds", "It has been held"),
        *told.starts(2),
        *told.input("is in progress"),
    ]


def _suspended(told: _Told) -> list[str]:
    return [
        f"Job {told.job} is currently suspended.",
        f"It has been suspended for {told.since('EnteredCurrentStatus')}.",
        *told.times("TotalSuspensions", "It has been suspended"),
        told.submitted(),
        *told.usage("Its last ... was"),
    ]


def _transferring(told: _Told) -> list[str]:
    return [
        f"Job {told.job} is currently transferring output.",
        f"It started transferring output {told.since('JobCurrentStartTransferOutputDate')} ago.",
        *told.usage("Its last ... was"),
    ]


def _held(told: _Told) -> list[str]:
    return [
        f"Job {told.job} is currently held.",
        f"It has been held for {told.since('EnteredCurrentStatus')}.",
        f'It was held because "{told.ad.eval("HoldReason")}".',
        f"It has been held {told.count('NumHolds')} time{plural(told.count('NumHolds'))}.",
        told.submitted(),
        *(told.usage("Its last ... was") if told.count("NumJobStarts") else []),
        *told.starts(1),
        *told.input("was in progress when the job was held"),
    ]


def _removed(told: _Told) -> list[str]:
    return [
        f"Job {told.job} was removed.",
        f"It was removed {told.since('EnteredCurrentStatus')} ago.",
        told.submitted(),
        *told.usage("Its last ... was"),
    ]


def _completed(told: _Told) -> list[str]:
    return [
        f"Job {told.job} has completed.",
        f"It completed {told.since('CompletionDate')} ago.",
        told.submitted(),
        *told.usage("Its last ... was"),
    ]


_SENTENCES = {
    _IDLE: _idle,
    _RUNNING: _running,
    _REMOVED: _removed,
    _COMPLETED: _completed,
    _HELD: _held,
    _TRANSFERRING: _transferring,
    _SUSPENDED: _suspended,
}


def _file(attribute: str, what: str, command: str) -> Verb:
    """A verb that prints a file of the job."""

    def run(options: Namespace, call: Call) -> None:
        ad = _job(options, call)
        name, directory = ad.eval(attribute), ad.eval("Iwd")
        if not isinstance(name, str) or not name:
            raise NotFoundError(f"Job {options.job_id} has no {what}", hint=f"its description has no `{command}`")
        path = Path(directory if isinstance(directory, str) else "", name)
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            raise NotFoundError(f"{error.strerror}: '{path}'") from None
        # What a job has printed may colour its output; an event log has texts of others.
        stream = call.inv.stdout if attribute == "UserLog" else as_it_is(call.inv.stdout)
        stream.write(text + "\n")

    return Verb(f"Shows the {what} of a job", run, _job_arguments)


def _resources(options: Namespace, call: Call) -> None:
    if (options.resource or "htcondor").casefold() != "htcondor":
        raise UsageError(f"there are no {options.resource} resources here", hint="leave --resource out")
    job = JobId.match(options.job_id)
    if job is None:
        raise UsageError(f"{options.job_id} is not a job", hint="write its id: 12, or 12.0")
    with call.schedd() as schedd:
        found = schedd.query(job.constraint, ["RemoteHost"])
    if not found:
        raise NotFoundError(f"No jobs found for ID {options.job_id}.")
    host = next((ad.eval("RemoteHost") for ad in found if "RemoteHost" in ad), None)
    if host is None:
        raise NotFoundError(f"Job {options.job_id} is not running yet.")
    call.info(f"Job is using resource {host}")


def _template(options: Namespace, call: Call) -> None:
    named = (call.inv.knobs().get("JOB_TEMPLATE_DIR") or "").strip()
    directory = Path(named) if named else None
    names = (
        sorted(path.name for path in directory.iterdir() if path.is_file()) if directory and directory.is_dir() else []
    )
    if not options.template_file:
        call.info("Available templates:" if names else "No templates available.")
        for name in sorted(names):
            call.info(f"Name: {name}")
        return
    wanted = options.template_file[0]
    if wanted not in names:
        raise NotFoundError(f"No template found named {wanted}.", hint="`htcondor job template` lists them")
    call.info(f"Creating submit file from template: {wanted}")
    shutil.copyfile(directory / wanted, call.inv.path(wanted))


def _job_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job_id", help="Job ID")
    parser.add_argument(
        "--skip-history", action="store_true", help="Skip checking history for completed or removed jobs"
    )


def _submit_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("submit_file", help="Submit file")
    parser.add_argument("--resource", help="Where the job runs: htcondor, which is this pool")
    parser.add_argument("--runtime", type=int, help="For resources of other kinds, which are not here")
    parser.add_argument("--email", help="For resources of other kinds, which are not here")
    parser.add_argument("--annex-name", help="For annexes, which are not here")


def _resources_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job_id", help="Job ID")
    parser.add_argument("--resource", help="Where the job runs: htcondor, which is this pool")


NOUN = Noun(
    "Run operations on HTCondor jobs",
    {
        "submit": Verb("Submits a job when given a submit file", _submit, _submit_arguments),
        "status": Verb("Shows current status of a job when given a job id", _status, _job_arguments),
        "out": _file("Out", "standard output", "output"),
        "err": _file("Err", "standard error", "error"),
        "log": _file("UserLog", "event log", "log"),
        "resources": Verb("Shows resources used by a job when given a job id", _resources, _resources_arguments),
        "template": Verb(
            "Displays and copies template submit files",
            _template,
            lambda parser: parser.add_argument("template_file", nargs="*", help="Name of template to use"),
        ),
    },
)

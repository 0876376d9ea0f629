"""``htcondor jobset``: sets of jobs, which HTCondor has where USE_JOBSETS is true. There are none here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.classad import quote
from slotwise.cli.htcondor.job import read
from slotwise.cli.htcondor.verb import Call, Noun, Verb, plural
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def _submit(options: Namespace, call: Call) -> None:
    read(call.inv.path(options.job_set_file), options.job_set_file)
    raise UsageError(
        "Job sets not enabled on this schedd by an administrator, because USE_JOBSETS is false in the configuration.  "
        "Skipping submit.",
        hint="Slotwise has no job sets; `batch_name` in submit descriptions keeps jobs together",
    )


def _list(options: Namespace, call: Call) -> None:
    call.error("No active job sets found.")


def _status(options: Namespace, call: Call) -> None:
    owner = options.owner or call.inv.account
    call.error(f'No active job sets found matching "{options.job_set_name}" for user {owner}.')


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

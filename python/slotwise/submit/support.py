"""What Slotwise does with submit commands beyond putting attributes into the job's ad.

A command that would change what a job does, and that is not carried out here, is rejected by name; one that is a
courtesy (notes in the log) lets the job run, with a warning. Commands that other universes read have no effect, as in
HTCondor. The table is printed in the reference page of submit commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.errors import SubmitError
from slotwise.model.words import truth


class Treatment(StrEnum):
    """What happens to a command."""

    DONE = "done"
    KEPT = "kept"
    WARNED = "warned"
    REFUSED = "refused"
    OTHER = "no effect"


class Rule(Struct, frozen=True):
    """Commands that are rejected or warned about if ``matters`` holds for the value of their attribute.

    Without an attribute, the text of the command counts.
    """

    commands: tuple[str, ...]
    attribute: str
    treatment: Treatment
    #: What Slotwise does not do, and what to do instead.
    words: str
    remedy: str
    matters: Callable[[Value], bool]


def _counts(value: Value) -> bool:
    """Whether a value requests something: it is neither false nor empty."""
    return value is not False and value != "" and value != 0


def _is_true_text(value: Value) -> bool:
    return truth(str(value)) is True


def _has_url(value: Value) -> bool:
    return isinstance(value, str) and "://" in value


def _leads_out(value: Value) -> bool:
    return isinstance(value, str) and (value.startswith("/") or ".." in value.split("/"))


def _refused(
    commands: str, attribute: str, words: str, remedy: str, matters: Callable[[Value], bool] = _counts
) -> Rule:
    return Rule(tuple(commands.split()), attribute, Treatment.REFUSED, words, remedy, matters)


def _warned(commands: str, attribute: str, words: str, matters: Callable[[Value], bool] = _counts) -> Rule:
    return Rule(tuple(commands.split()), attribute, Treatment.WARNED, words, "", matters)


_NO_CALENDAR = "jobs are not started by a calendar yet"
_AT_A_TIME = "deferral_time starts a job at one time; cron can run `slotwise submit`"
_NO_CREDENTIALS = "credentials of registries are not sent"
_NO_TOOL = "no tool is run beside the job"
_NO_SCRIPT = "nothing is run before or after the job"
_IN_A_SCRIPT = "start it from a script that is the executable"

RULES = (
    _refused("universe", "JobUniverse", "jobs of this universe are not run", "use universe = vanilla",
             lambda value: value not in (5, 7, 10, 11, 12, 13)),
    _refused("docker_send_credentials", "DockerSendCredentials", _NO_CREDENTIALS,
             "have the administrator log the execution points in to the registry"),
    _refused("", "PreCmd", _NO_SCRIPT, _IN_A_SCRIPT),
    _refused("", "PostCmd", _NO_SCRIPT, _IN_A_SCRIPT),
    _refused("cron_minute", "CronMinute", _NO_CALENDAR, _AT_A_TIME),
    _refused("cron_hour", "CronHour", _NO_CALENDAR, _AT_A_TIME),
    _refused("cron_day_of_month", "CronDayOfMonth", _NO_CALENDAR, _AT_A_TIME),
    _refused("cron_month", "CronMonth", _NO_CALENDAR, _AT_A_TIME),
    _refused("cron_day_of_week", "CronDayOfWeek", _NO_CALENDAR, _AT_A_TIME),
    _refused("noop_job", "IsNoopJob", "every job is run", "use executable = /bin/true"),
    _refused("log_xml", "UserLogUseXML", "event logs are written as text", "take the command out"),
    _refused("output_destination", "OutputDestination", "it is not an URL", "write SCHEME://..., or leave it out",
             lambda value: not _has_url(value)),
    _refused("checkpoint_destination", "CheckpointDestination", "it is not an URL",
             "write SCHEME://..., or leave it out", lambda value: not _has_url(value)),
    _refused("public_input_files", "PublicInputFiles", "there is no web server for inputs", "use transfer_input_files"),
    _refused("scitokens_file use_scitokens use_scitoken", "ScitokensFile", "a file's token is not renewed",
             "name the file in transfer_input_files, or store the token and write use_oauth_services"),
    _refused("tool_daemon_cmd", "ToolDaemonCmd", _NO_TOOL, _IN_A_SCRIPT),
    _refused("suspend_job_at_exec", "SuspendJobAtExec", _NO_TOOL, "take the command out"),
    _refused("stream_input", "StreamIn", "standard input is sent before the job begins",
             "take the command out; the job reads the same input"),
    _refused("mount_under_scratch", "MountUnderScratch", "a job cannot choose its own mounts",
             "set MOUNT_UNDER_SCRATCH at the execution points"),
    _refused("manifest_dir", "ManifestDir", "it is not in the job's scratch directory",
             "write a name, or a path below that directory", _leads_out),
    _warned("ulog_execute_attrs", "UserLogExecuteEventAttrs", "the event log shows what it always shows"),
    _warned("submit_event_notes_attrs", "SubmitEventNotesAttrs", "the event log shows what it always shows"),
    _warned("match_list_length", "LastMatchListLength", "no list of former machines is kept"),
    _warned("primary_unix_group", "PrimaryUnixGroup", "the account's own group is used"),
    _warned("starter_debug", "JobStarterDebug", "the starter's log has no level of its own for a job"),
    _warned("starter_log", "JobStarterLog", "the starter's log stays at the execution point"),
    _warned("submit_warn_empty_fields", "", "empty fields of queue statements are taken as they are", _is_true_text),
    _warned("submit_fail_empty_fields", "", "empty fields of queue statements are taken as they are", _is_true_text),
    _warned("WantParallelScheduling", "WantParallelScheduling", "a job of one node is matched like any other",
            lambda value: value is True),
    _warned("DelegateJobGSICredentialsLifetime", "DelegateJobGSICredentialsLifetime",
            "the job has the proxy as it is, for as long as it is valid"),
    _warned("want_job_networking", "WantJobNetworking", "the job has the network of its host"),
)  # fmt: skip

#: Commands whose attributes are for people, programs and expressions; the pool itself does nothing with them.
KEPT = frozenset((
    "batch_id", "dag_node_name", "dagman_job_id", "dagman_log", "description", "project_name", "image_size",
    "disk_usage", "job_machine_attrs_history_length", "buffer_size", "buffer_block_size", "noop_job_exit_code",
    "noop_job_exit_signal", "want_io_proxy", "want_graceful_removal", "dont_encrypt_input_files",
    "dont_encrypt_output_files", "cuda_version",
))  # fmt: skip
#: Commands of other universes, of Windows, or of rejected features: without effect in the vanilla universe, as in
#: HTCondor.
OTHER = re.compile(
    r"""(?ix) (aws|azure|batch|ec2|gce|gs|s3|arc)_.* | batch_project | grid_resource
    | Remote_.*grid_resource | remote_universe | keystore_file
    | (append|buffer|compress|fetch|local)_files | file_remaps | parallel_script_.*
    | load_profile | tool_daemon_(arg|input|output|error).* | cron_(prep_time|window) | Cron(PrepTime|Window)
    | interactive_submit_file | output_directory"""
)
#: Commands that begin with these words but have an effect.
_BATCH = frozenset(("batch_name", "batch_id"))


#: Commands that are refused for some of their values.
_BY_VALUE = frozenset(("universe", "output_destination", "checkpoint_destination", "manifest_dir"))


def treatment(command: str) -> tuple[Treatment, str]:
    """What happens to a command, and why it is not simply carried out."""
    for rule in RULES:
        if command in rule.commands and command not in _BY_VALUE:
            return rule.treatment, rule.words + (f": {rule.remedy}" if rule.remedy else "")
    if command in KEPT:
        return Treatment.KEPT, "for people, programs and expressions"
    if command not in _BATCH and OTHER.fullmatch(command):
        return Treatment.OTHER, "not for jobs of the vanilla universe"
    return Treatment.DONE, ""


_NAMES = "|".join(sorted({re.escape(name) for rule in RULES for name in (*rule.commands, rule.attribute) if name}))
#: Matches texts that may have such a command: most do not, and are not checked further.
_SUSPECT = re.compile(rf"(?im)^[ \t]*+[+]?(?:my\.)?(?:{_NAMES})[ \t]*+(?:=|@=)|^[ \t]*+include\b")


def is_suspect(texts: Iterable[str]) -> bool:
    """Whether any of these texts may have a command that is rejected or warned about."""
    return any(_SUSPECT.search(text) for text in texts)


def check(ads: Iterable[ClassAd], text: str, filename: str) -> list[str]:
    """Warnings about what is not done for these jobs.

    :raises SubmitError: a command would change the jobs; names line, command and remedy.
    """
    warnings: dict[str, None] = {}
    for ad in ads:
        for rule in RULES:
            value = ad.get(rule.attribute) if rule.attribute in ad else _written(text, rule)
            if value is None or not rule.matters(value):
                continue
            line, name = _place(text, rule)
            origin = f"{filename}:{line}" if line else filename
            if rule.treatment is Treatment.REFUSED:
                raise SubmitError(f"{name}: {rule.words}", hint=rule.remedy, origin=origin, key=name)
            warnings[f"{origin}: {name}: {rule.words}"] = None
    return list(warnings)


def _written(text: str, rule: Rule) -> str | None:
    """The text of a command that sets no attribute; None if it is missing."""
    found = None if rule.attribute else re.search(rf"(?im)^[ \t]*{rule.commands[0]}[ \t]*=(.*)$", text)
    return None if found is None else found.group(1)


_SKIPS = re.compile(r"(?im)^[ \t]*+skip_filechecks[ \t]*+=[ \t]*+(true|t|yes|1)[ \t\r]*+$")


def skips_file_checks(texts: Iterable[str]) -> bool:
    """Whether ``skip_filechecks`` is set: the run finds missing files, not the submission."""
    return any(_SKIPS.search(text) for text in texts)


def _place(text: str, rule: Rule) -> tuple[int, str]:
    """Line and name of the command as it was written; 0 and its usual name if it is not in the text."""
    names = "|".join(re.escape(name) for name in (*rule.commands, rule.attribute) if name)
    found = re.search(rf"(?im)^[ \t]*[+]?(?:my\.)?({names})[ \t]*(?:=|@=)", text)
    if found is None:
        return 0, rule.commands[0] if rule.commands else rule.attribute
    return text.count("\n", 0, found.start(1)) + 1, found.group(1)

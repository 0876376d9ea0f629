"""The submit description of a DAG's job, as `condor_submit_dag -no_submit` writes it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.jobs.dag.submit import condor_submit_dag
from slotwise.errors import SlotwiseError

from htcondor2._errors import HTCondorException

#: The options, by name: the option of condor_submit_dag that each is, with a value or, for a bool, without.
_FLAGS = {
    "DebugLevel": "-Debug", "MaxIdle": "-MaxIdle", "MaxJobs": "-MaxJobs", "MaxPre": "-MaxPre", "MaxPost": "-MaxPost",
    "DoRecovery": "-DoRecovery", "Priority": "-Priority", "SaveFile": "-load_save", "RescueFile": "-RescueFile",
    "Verbose": "-verbose", "Force": "-force", "Notification": "-Notification", "UseDagDir": "-UseDagDir",
    "OutfileDir": "-outfile_dir", "AutoRescue": "-AutoRescue", "DoRescueFrom": "-DoRescueFrom",
    "AllowVersionMismatch": "-AllowVersionMismatch", "Recurse": "-do_recurse", "UpdateSubmit": "-update_submit",
    "ImportEnv": "-import_env", "GetFromEnv": "-include_env", "AddToEnv": "-insert_env", "DagmanPath": "-dagman",
    "ConfigFile": "-Config", "BatchName": "-Batch-Name", "AppendFile": "-insert_sub_file",
    "SubmitMethod": "-SubmitMethod",
}  # fmt: skip
#: Those that are another option when they are false.
_EITHER = {
    "PostRun": ("-AlwaysRunPost", "-DontAlwaysRunPost"),
    "SuppressNotification": ("-suppress_notification", "-dont_suppress_notification"),
}
#: The others: lines that are appended; and one that asks for no more than is done.
_OTHERS = ("AppendLines", "BatchId", "SetupOnly")
#: Options of condor_submit_dag with a number that a bool stands for.
_NUMBERS = ("AutoRescue",)
#: Names of version 1.
_FORMER = {
    "dagman": "DagmanPath", "alwaysrunpost": "PostRun", "debug": "DebugLevel", "outfile_dir": "OutfileDir",
    "config": "ConfigFile", "batch-name": "BatchName", "load_save": "SaveFile", "do_recurse": "Recurse",
    "update_submit": "UpdateSubmit", "import_env": "ImportEnv", "include_env": "GetFromEnv", "insert_env": "AddToEnv",
    "suppress_notification": "SuppressNotification", "dorecov": "DoRecovery",
}  # fmt: skip
_NAMES = {name.lower(): name for name in (*_FLAGS, *_EITHER, *_OTHERS)}


def description(filename: str, options: Mapping[str, int | bool | str]) -> str:
    """Write ``FILENAME.condor.sub``, and give back its text.

    :raises HTCondorException: the DAG is not there or has an unknown command, an option is unknown, or files of a
        former run are in the way.
    """
    if not Path(filename).exists():
        raise HTCondorException(f"{filename} does not exist")
    said = io.StringIO()
    inv = replace(Invocation.of_process(), stdout=io.StringIO(), stderr=said, called="condor_submit_dag")
    try:
        done = condor_submit_dag(["-no_submit", *_words(_named(options)), filename], inv)
    except SlotwiseError as error:
        raise HTCondorException(str(error)) from None
    if done:
        raise HTCondorException(said.getvalue().strip())
    return Path(f"{filename}.condor.sub").read_text(errors="surrogateescape")


def names() -> list[str]:
    """The names of all options."""
    return sorted(_NAMES.values())


def _named(options: Mapping[str, int | bool | str]) -> dict[str, int | bool | str]:
    found: dict[str, int | bool | str] = {}
    for key, value in options.items():
        if not isinstance(key, str):
            raise TypeError("options keys must by strings")
        if not key:
            raise ValueError("options key is empty")
        if not isinstance(value, int | bool | str):
            raise TypeError("options values must be int, bool, or str")
        name = _NAMES.get(_FORMER.get(key.lower(), key).lower())
        if name is None:
            raise HTCondorException(f"{key} is not an option of DAGMan; these are: {', '.join(names())}")
        found[name] = value
    return found


def _words(options: Mapping[str, int | bool | str]) -> Iterator[str]:
    for name, value in options.items():
        if name in _EITHER:
            yield _EITHER[name][0 if _is_on(value) else 1]
        elif name == "AppendLines":
            for line in str(value).splitlines():
                yield from ("-append", line)
        elif name == "BatchId":
            yield from ("-append", f'My.JobBatchId = "{value}"')
        elif name in _FLAGS and isinstance(value, bool) and name not in _NUMBERS:
            if value:
                yield _FLAGS[name]
        elif name in _FLAGS:
            yield from (_FLAGS[name], str(int(value) if isinstance(value, bool) else value))


def _is_on(value: int | bool | str) -> bool:
    return str(value).strip().lower() in ("true", "1", "yes", "t")

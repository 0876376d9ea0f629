"""The submit description of DAGMan for a DAG, as `condor_submit_dag -no_submit` makes it.

The driver is HTCondor's own `condor_dagman`, which is not part of this package; it calls `condor_submit` and
`condor_rm` of this pool.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from slotwise.release import CONDOR_VERSION

from htcondor2._errors import HTCondorException

#: The options, by name: the argument of condor_dagman that each becomes (with the value, unless it is a bool).
_ARGUMENTS = {
    "DebugLevel": "-Debug", "MaxIdle": "-MaxIdle", "MaxJobs": "-MaxJobs", "MaxPre": "-MaxPre", "MaxPost": "-MaxPost",
    "DoRecovery": "-DoRecov", "SetupOnly": "-SetupOnly", "Priority": "-Priority", "SaveFile": "-load_save",
    "RescueFile": "-RescueFile", "Verbose": "-verbose", "Force": "-force", "Notification": "-notification",
    "UseDagDir": "-usedagdir", "OutfileDir": "-outfile_dir", "AutoRescue": "-AutoRescue",
    "DoRescueFrom": "-DoRescueFrom", "AllowVersionMismatch": "-AllowVersionMismatch", "Recurse": "-do_recurse",
    "UpdateSubmit": "-update_submit", "ImportEnv": "-import_env", "GetFromEnv": "-include_env",
    "AddToEnv": "-insert_env", "SuppressNotification": "-suppress_notification",
}  # fmt: skip
#: The other options.
_OTHERS = ("DagmanPath", "PostRun", "ConfigFile", "BatchName", "BatchId", "AppendLines", "AppendFile")
#: Names of version 1.
_FORMER = {
    "dagman": "DagmanPath", "alwaysrunpost": "PostRun", "debug": "DebugLevel", "outfile_dir": "OutfileDir",
    "config": "ConfigFile", "batch-name": "BatchName", "load_save": "SaveFile", "do_recurse": "Recurse",
    "update_submit": "UpdateSubmit", "import_env": "ImportEnv", "include_env": "GetFromEnv", "insert_env": "AddToEnv",
    "suppress_notification": "SuppressNotification", "dorecov": "DoRecovery",
}  # fmt: skip
_NAMES = {name.lower(): name for name in (*_ARGUMENTS, *_OTHERS)}
#: What DAGMan and the commands that it calls need of the environment.
_GETENV = (
    "CONDOR_CONFIG,_CONDOR_*,SLOTWISE_*,PATH,PYTHONPATH,PERL*,PEGASUS_*,TZ,HOME,USER,LANG,LC_ALL,ASAN_OPTIONS,"
    "LSAN_OPTIONS,BEARER_TOKEN,BEARER_TOKEN_FILE"
)
_OUTPUTS = ("condor.sub", "lib.out", "lib.err", "dagman.log")


def description(filename: str, options: Mapping[str, int | bool | str]) -> str:
    """Write ``FILENAME.condor.sub``, and give back its text.

    :raises HTCondorException: the DAG or condor_dagman is not there, an option is unknown, or files of a former run are
        in the way.
    """
    dag = Path(filename)
    if not dag.exists():
        raise HTCondorException(f"{filename} does not exist")
    wanted = _named(options)
    paths = {kind: Path(f"{filename}.{kind}") for kind in _OUTPUTS}
    again = _is_on(wanted, "Force") or _is_on(wanted, "UpdateSubmit") or any(dag.parent.glob(f"{dag.name}.rescue*"))
    in_the_way = [str(path) for path in paths.values() if path.exists()]
    if in_the_way and not again:
        raise HTCondorException(f"{', '.join(in_the_way)} of a former run: remove them, or set the option Force")
    config, attributes = _about_all(dag)
    if config and "ConfigFile" not in wanted:
        wanted["ConfigFile"] = str(config)
    text = _text(filename, wanted, attributes, _driver(wanted))
    try:
        paths["condor.sub"].write_text(text)
    except OSError as error:
        raise HTCondorException(f"cannot write {paths['condor.sub']}: {error.strerror}") from None
    return text


def _about_all(dag: Path) -> tuple[Path | None, list[str]]:
    """The configuration that a DAG's file names (CONFIG), and the attributes for its driver (SET_JOB_ATTR)."""
    config, attributes = None, []
    for line in dag.read_text(errors="replace").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "CONFIG":
            found = [place for place in (Path.cwd() / rest.strip(), dag.parent / rest.strip()) if place.exists()]
            if not found:
                raise HTCondorException(f"{dag}: there is no configuration file {rest.strip()}")
            config = found[0].absolute()
        elif word.upper() == "SET_JOB_ATTR":
            attributes.append(f"My.{rest.strip()}")
    return config, attributes


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


def _driver(options: Mapping[str, int | bool | str]) -> str:
    path = str(options.get("DagmanPath") or shutil.which("condor_dagman") or "")
    if not path or not os.access(path, os.X_OK):
        raise HTCondorException(
            f"{path or 'condor_dagman'} cannot be run: install HTCondor's condor_dagman and have it in PATH, or name "
            "it in the option DagmanPath"
        )
    return path


def _text(filename: str, options: Mapping[str, int | bool | str], attributes: list[str], driver: str) -> str:
    words = ["-f", "-l", ".", "-Lockfile", f"{filename}.lock", "-Dag", filename]
    words += ["-CsdVersion", CONDOR_VERSION, "-dagman", driver]
    if "PostRun" in options:
        words.append("-AlwaysRunPost" if _is_on(options, "PostRun") else "-DontAlwaysRunPost")
    for name, value in {"AutoRescue": 1, **options}.items():
        flag = _ARGUMENTS.get(name)
        if flag is None or value is False:
            continue
        has_value = value is not True or name == "AutoRescue"
        words += [flag, str(int(value) if value is True else value)] if has_value else [flag]
    environment = {
        "_CONDOR_DAGMAN_LOG": f"{filename}.dagman.out",
        "_CONDOR_MAX_DAGMAN_LOG": "0",
        # DAGMan's library speaks HTCondor's protocol; the commands speak ours.
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "_CONDOR_LOG": str(Path(filename).absolute().parent),
    }
    for knob, command in (("SUBMIT", "condor_submit"), ("RM", "condor_rm")):
        if found := shutil.which(command):
            environment[f"_CONDOR_DAGMAN_CONDOR_{knob}_EXE"] = found
    if config := options.get("ConfigFile"):
        environment["_CONDOR_DAGMAN_CONFIG_FILE"] = str(config)
    getenv = f"{_GETENV},{options['GetFromEnv']}" if options.get("GetFromEnv") else _GETENV
    more = f" {options['AddToEnv']}" if options.get("AddToEnv") else ""
    lines = [
        f"# Filename: {filename}.condor.sub", f"# Generated by htcondor2 for {filename}", "universe = scheduler",
        f"executable = {driver}", f"getenv = {getenv}", f"output = {filename}.lib.out", f"error = {filename}.lib.err",
        f"log = {filename}.dagman.log", "remove_kill_sig = SIGUSR1",
        'My.OtherJobRemoveRequirements = "DAGManJobId =?= $(cluster)"', "My.IsDaemonCore = True",
        # DAGMan is started again when it ends by a signal, or its machine restarts.
        "on_exit_remove = (ExitSignal =?= 11 || (ExitCode =!= UNDEFINED && ExitCode >=0 && ExitCode <= 2))",
        f'arguments = "{" ".join(map(_quoted, words))}"',
        f'environment = "{" ".join(f"{name}={_quoted(value)}" for name, value in environment.items())}{more}"',
    ]  # fmt: skip
    for name, attribute in (("BatchName", "JobBatchName"), ("BatchId", "JobBatchId")):
        if named := options.get(name):
            lines.append(f'My.{attribute} = "{named}"')
    if notification := options.get("Notification"):
        lines.append(f"notification = {notification}")
    if appended := options.get("AppendFile"):
        lines += Path(str(appended)).read_text().splitlines()
    lines += attributes
    lines += str(options.get("AppendLines") or "").splitlines()
    return "\n".join([*lines, "queue", ""])


def _is_on(options: Mapping[str, int | bool | str], name: str) -> bool:
    return str(options.get(name, "")).strip().lower() in ("true", "1", "yes", "t")


def _quoted(word: str) -> str:
    """The word as the new syntax of arguments and environment has it."""
    doubled = word.replace('"', '""')
    if not word or any(char in " \t'" for char in word):
        return "'" + doubled.replace("'", "''") + "'"
    return doubled

"""The options of condor_submit_dag, which are those of ``slotwise dag submit``. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from slotwise.errors import UsageError


class Flag(Struct, frozen=True):
    """An option: what it sets, and its text in the usage.

    ``sets``: a field of :class:`DagOptions`. ``value``: how its value is called in the usage; "" for one without.
    ``means``: what one without a value sets. Without ``text`` it is left out of the usage.
    """

    name: str
    sets: str
    value: str = ""
    means: bool = True
    text: str = ""


FLAGS = (
    Flag(
        "-AllowVersionMismatch", "allow_version_mismatch",
        text="Allow version difference between *.condor.sub file and condor_dagman",
    ),
    Flag("-AlwaysRunPost", "post_run", text="Run POST script if PRE script fails"),
    Flag("-a", "append", "<command>"),
    Flag("-Append", "append", "<command>", text="Append submit description command to *.condor.sub file"),
    Flag(
        "-AutoRescue", "auto_rescue", "<0|1>",
        text="Control automatically running new rescue DAG (0=False | 1=True)",
    ),
    Flag("-Batch-Name", "batch_name", "<name>", text="Set DAG batch name"),
    Flag("-Config", "config", "<filename>", text="Specify DAGMan configuration file"),
    Flag("-DAGMan", "dagman", "<path>", text="Full path to alternate condor_dagman executable"),
    Flag("-Debug", "debug", "<level>", text="Set DAGMan debug logs verbosity"),
    Flag("-do_recurse", "recurse", text="Recursively generate Sub-DAG *.condor.sub files"),
    Flag(
        "-dont_suppress_notification", "suppress_notification", means=False,
        text="Suppress email notifications for DAGMan and all its submitted jobs",
    ),
    Flag("-DontAlwaysRunPost", "post_run", means=False, text="Don't run POST script if PRE script fails"),
    Flag("-DoRecovery", "do_recovery", text="Allow DAG submitted jobs to send email notifications"),
    Flag("-DoRescueFrom", "do_rescue_from", "<N>", text="Run DAG rescue of given number"),
    Flag("-f", "force"),
    Flag("-Force", "force", text="Overwrite used DAG file if they exist"),
    Flag("-import_env", "import_env", text="Import current environment into *.condor.sub file"),
    Flag(
        "-include_env", "include_env", "<variables>",
        text="Comma separated list of environment variables to *.condor.sub file getenv filter",
    ),
    Flag(
        "-insert_env", "insert_env", "<key=value>",
        text="Delimited key=value pairs to explicitly set in the *.condor.sub file environment",
    ),
    Flag("-insert_sub_file", "insert_sub_file", "<filename>", text="Append specified submit file to *.condor.sub file"),
    Flag("-load_save", "load_save", "<filename>", text="Run DAG from provided save point file"),
    Flag("-Lockfile", "lock_file", "<filename>", text="DAGMan lock filename"),
    Flag("-MaxIdle", "max_idle", "<N>", text="Maximum number of Idle nodes allowed"),
    Flag("-MaxHold", "max_hold", "<N>", text="Maximum number of HOLD scripts to run at once"),
    Flag("-MaxJobs", "max_jobs", "<N>", text="Maximum number of jobs submitted at once"),
    Flag("-MaxPost", "max_post", "<N>", text="Maximum number of POST scripts to run at once"),
    Flag("-MaxPre", "max_pre", "<N>", text="Maximum number of PRE scripts to run at once"),
    Flag(
        "-no_recurse", "recurse", means=False,
        text="Don't recursively generate Sub-DAG *.condor.sub files (Default)",
    ),
    Flag("-no_submit", "submits", means=False, text="DAG is not submitted to HTCondor automatically"),
    Flag("-Notification", "notification", "<option>", text="Set HTCondor email notification level for DAG"),
    Flag("-outfile_dir", "outfile_dir", "<path>", text="Directory path to write *.dagman.out file"),
    Flag("-Priority", "priority", "<priority>", text="Default priority for all jobs submitted by DAGMan"),
    Flag("-r", "remote", "<schedd name>"),
    Flag("-Remote", "remote", "<schedd name>", text="Name of remote schedd to submit DAGMan"),
    Flag("-RescueFile", "rescue_file", "<filename>", text="Run DAG from specified rescue file"),
    Flag(
        "-schedd-address-file", "schedd_address_file", "<path>", text="Submit DAG to Schedd provided by address file"
    ),
    Flag("-schedd-daemon-ad-file", "schedd_ad_file", "<path>", text="Submit DAG to Schedd provided by ad file"),
    Flag(
        "-suppress_notification", "suppress_notification",
        text="Suppress email notifications for DAGMan and all its submitted jobs",
    ),
    Flag(
        "-SubmitMethod", "submit_method", "<value>",
        text="Specify how DAGMan submits jobs for execution (0=condor_submit|1=DirectSubmit)",
    ),
    Flag("-terse", "terse", text="Display only the resulting DAGMan job id on success"),
    Flag("-update_submit", "update_submit", text="Update *.condor.sub file if it exists"),
    Flag("-UseDagDir", "use_dag_dir", text="Run DAGs in directories specified by DAG file paths"),
    Flag("-v", "verbose"),
    Flag("-Valgrind", "valgrind", text="Run DAGMan under Valgrind (Linux Only)"),
    Flag("-Verbose", "verbose", text="Increase error message verbosity for condor_submit_dag"),
)  # fmt: skip
_SORTED = sorted(FLAGS, key=lambda flag: flag.name.lower())
#: Options that cannot stand beside others.
_EXCLUDES = {
    "do_recovery": ("load_save",),
    "do_rescue_from": ("load_save", "rescue_file"),
    "rescue_file": ("do_rescue_from", "load_save"),
    "load_save": ("do_recovery", "do_rescue_from", "rescue_file"),
}


class DagOptions(Struct):
    """What a call asks for. Numbers of -1 and Nones were not given."""

    files: list[str] = field(default_factory=list)
    allow_version_mismatch: bool = False
    post_run: bool | None = None
    append: list[str] = field(default_factory=list)
    auto_rescue: int = 1
    batch_name: str = ""
    config: str = ""
    dagman: str = ""
    debug: int = -1
    recurse: bool = False
    suppress_notification: bool | None = None
    do_recovery: bool = False
    do_rescue_from: int = 0
    force: bool = False
    import_env: bool = False
    include_env: list[str] = field(default_factory=list)
    insert_env: list[str] = field(default_factory=list)
    insert_sub_file: str = ""
    load_save: str = ""
    lock_file: str = ""
    max_idle: int = -1
    max_hold: int = -1
    max_jobs: int = -1
    max_post: int = -1
    max_pre: int = -1
    submits: bool = True
    notification: str = ""
    outfile_dir: str = ""
    priority: int = 0
    remote: str = ""
    rescue_file: str = ""
    schedd_address_file: str = ""
    schedd_ad_file: str = ""
    submit_method: int = -1
    terse: bool = False
    update_submit: bool = False
    use_dag_dir: bool = False
    verbose: bool = False
    valgrind: bool = False

    @property
    def primary(self) -> str:
        """The DAG file that gives the other files their names."""
        return self.files[0]


class DagUsageError(UsageError):
    """The words of a call are off, in HTCondor's words."""

    #: Whether HTCondor says it on standard output.
    on_output = False


def find(word: str) -> Flag | None:
    """The option of a word: any beginning counts, in any letter case, and the first in the alphabet wins."""
    wanted = word.lower()
    return next((flag for flag in _SORTED if flag.name.lower().startswith(wanted)), None)


def parse(args: Sequence[str], options: DagOptions) -> None:
    """Set what the words of a call say.

    :raises DagUsageError: for words that are none of it.
    """
    given: dict[str, str] = {}
    words = list(args)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            options.files.append(word)
            continue
        if options.files:
            error = DagUsageError("ERROR: no arguments allowed after DAG file name(s)")
            error.on_output = True
            raise error
        flag = find(word)
        if flag is None:
            raise DagUsageError(f"Error: Unknown flag '{word.lower()}' provided")
        barred = sorted(other for other in _EXCLUDES.get(flag.sets, ()) if other in given)
        if barred:
            names = [one.name for one in _SORTED if one.sets in barred and one.text]
            plural = "s" if len(barred) > 1 else ""
            raise DagUsageError(
                f"Error: {flag.name} can not be used with the following flag{plural}: {','.join(names)}"
            )
        if not flag.value:
            former = given.setdefault(flag.sets, flag.name)
            if former != flag.name and _means(former) != flag.means:
                raise DagUsageError(f"Error: Both {former} and {flag.name} can't be used at the same time")
            setattr(options, flag.sets, flag.means)
            continue
        given[flag.sets] = flag.name
        _set(options, flag, word.lower(), words)
    if not options.files:
        raise DagUsageError("ERROR: no dag file specified; aborting.")
    if options.do_rescue_from < 0:
        raise DagUsageError("-DoRescueFrom value must be non-negative; aborting.")


def _means(name: str) -> bool:
    return next(flag.means for flag in FLAGS if flag.name == name)


def _set(options: DagOptions, flag: Flag, word: str, words: list[str]) -> None:
    current = getattr(options, flag.sets)
    is_number = isinstance(current, int)
    if not words or (words[0].startswith("-") and not is_number):
        raise DagUsageError(f"Error: Option {flag.name} ({word}) requires an additional argument")
    value = words.pop(0)
    if flag.sets == "insert_env":
        value = value.strip()
    elif flag.sets == "batch_name" and len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if not value:
        raise DagUsageError(f"Error: {word} ({flag.name}) additional argument was empty")
    if is_number:
        try:
            setattr(options, flag.sets, int(value))
        except ValueError:
            raise DagUsageError(f"Error: {word} ({flag.name}) additional argument required to be a integer") from None
    elif isinstance(current, list):
        current.append(value)
    else:
        setattr(options, flag.sets, value)


def usage(command: str) -> str:
    """The usage as condor_submit_dag prints it."""
    lines = [
        f"Usage: {command} [options] dag_file [dag_file_2 ... dag_file_n]",
        "  where dag_file1, etc., is the name of a DAG input file",
        "  and where [options] is one or more of:",
        "    -help                          (print usage info and exit)",
        "    -version                       (print version and exit)",
    ]
    for flag in _SORTED:
        if flag.text:
            shown = f"{flag.name} {flag.value}" if flag.value else flag.name
            lines.append(f"    {shown:<30} ({flag.text})")
    return "\n".join(lines)


__all__ = ["FLAGS", "DagOptions", "DagUsageError", "Flag", "find", "parse", "usage"]

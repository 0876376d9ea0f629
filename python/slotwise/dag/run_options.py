"""The options of condor_dagman, as condor_submit_dag writes them into X.condor.sub. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from slotwise.errors import UsageError

#: Options with a value, by their names in small letters: the field that it goes to; "" for those without a meaning.
_VALUES = {
    "-l": "", "-debug": "debug", "-lockfile": "lock_file", "-dag": "files", "-maxidle": "max_idle",
    "-maxjobs": "max_jobs", "-maxpre": "max_pre", "-maxpost": "max_post", "-maxhold": "max_hold",
    "-csdversion": "version", "-priority": "priority", "-load_save": "load_save", "-rescuefile": "rescue_file",
    "-dagman": "dagman", "-outfile_dir": "outfile_dir", "-autorescue": "auto_rescue",
    "-dorescuefrom": "do_rescue_from", "-notification": "notification", "-include_env": "include_env",
    "-insert_env": "insert_env", "-submitmethod": "submit_method", "-batch-name": "batch_name",
    "-waitfordebug": "",
}  # fmt: skip
#: Options without one, and what each sets.
_FLAGS: dict[str, tuple[str, object]] = {
    "-f": ("", None), "-t": ("", None), "-alwaysrunpost": ("always_post", True),
    "-dontalwaysrunpost": ("always_post", False), "-dorecov": ("recovers", True), "-dorecovery": ("recovers", True),
    "-verbose": ("verbose", True), "-usedagdir": ("use_dag_dir", True),
    "-allowversionmismatch": ("allow_version_mismatch", True), "-import_env": ("import_env", True),
    "-do_recurse": ("recurse", True), "-suppress_notification": ("suppress_notification", True),
    "-dont_suppress_notification": ("suppress_notification", False), "-force": ("force", True),
    "-update_submit": ("update_submit", True),
}  # fmt: skip


class RunOptions(Struct):
    """What the runner is told. Numbers of -1 and Nones were not given."""

    files: list[str] = field(default_factory=list)
    lock_file: str = ""
    debug: int = -1
    max_idle: int = -1
    max_jobs: int = -1
    max_pre: int = -1
    max_post: int = -1
    max_hold: int = -1
    always_post: bool | None = None
    recovers: bool = False
    version: str = ""
    priority: int = 0
    load_save: str = ""
    rescue_file: str = ""
    verbose: bool = False
    notification: str = ""
    dagman: str = ""
    use_dag_dir: bool = False
    outfile_dir: str = ""
    auto_rescue: int = 1
    do_rescue_from: int = 0
    allow_version_mismatch: bool = False
    import_env: bool = False
    include_env: list[str] = field(default_factory=list)
    insert_env: list[str] = field(default_factory=list)
    recurse: bool = False
    suppress_notification: bool | None = None
    submit_method: int = -1
    force: bool = False
    update_submit: bool = False
    batch_name: str = ""

    @property
    def primary(self) -> str:
        """The DAG file that gives the other files their names."""
        return self.files[0]


def parse(args: Sequence[str]) -> RunOptions:
    """What the words of the runner's job say.

    :raises UsageError: for words that are none of it, and for what only HTCondor's runner does.
    """
    options = read(args)
    if options.submit_method == 0:
        raise UsageError(
            "-SubmitMethod 0 (condor_submit for each node) is HTCondor's", hint="leave it out, or use -dagman PATH"
        )
    return options


def read(args: Sequence[str]) -> RunOptions:
    """What the words of a runner's job say, Slotwise's or HTCondor's.

    :raises UsageError: for words that are none of it.
    """
    options = RunOptions()
    words = list(args)
    while words:
        word = words.pop(0)
        name = word.lower()
        if name in _FLAGS:
            sets, means = _FLAGS[name]
            if sets:
                setattr(options, sets, means)
        elif name in _VALUES:
            if not words:
                raise UsageError(f"{word} needs a value")
            _set(options, _VALUES[name], word, words.pop(0))
        else:
            raise UsageError(f"unknown option {word}", hint="condor_submit_dag writes those that there are")
    if not options.files:
        raise UsageError("no -Dag FILE is given", hint="submit DAGs with condor_submit_dag")
    return options


def _set(options: RunOptions, sets: str, word: str, value: str) -> None:
    if not sets:
        return
    current = getattr(options, sets)
    if isinstance(current, list):
        current.append(value)
    elif isinstance(current, int):
        try:
            setattr(options, sets, int(value))
        except ValueError:
            raise UsageError(f"{word} {value}: not a number") from None
    else:
        setattr(options, sets, value)


__all__ = ["RunOptions", "parse", "read"]

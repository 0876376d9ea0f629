"""The DAGMAN_ knobs and the options of a run, as one: command line before the DAG's CONFIG before the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from slotwise.config import Config, check, load
from slotwise.config.problem import WARNING, Problem
from slotwise.config.view import DEFAULT
from slotwise.dag.reading import ReadOptions
from slotwise.dag.run_options import RunOptions
from slotwise.errors import UsageError
from slotwise.model.words import truth

#: What the runner reads of the configuration.
KNOBS = (
    "DAGMAN_MAX_JOBS_IDLE", "DAGMAN_MAX_JOBS_SUBMITTED", "DAGMAN_MAX_PRE_SCRIPTS", "DAGMAN_MAX_POST_SCRIPTS",
    "DAGMAN_MAX_HOLD_SCRIPTS", "DAGMAN_MAX_SUBMIT_ATTEMPTS", "DAGMAN_MAX_JOB_HOLDS", "DAGMAN_HOLD_CLAIM_TIME",
    "DAGMAN_DEFAULT_PRIORITY", "DAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING", "DAGMAN_USE_STRICT",
    "DAGMAN_STARTUP_CYCLE_DETECT", "DAGMAN_USE_JOIN_NODES", "DAGMAN_SUBMIT_DEPTH_FIRST", "DAGMAN_ALWAYS_RUN_POST",
    "DAGMAN_RETRY_NODE_FIRST", "DAGMAN_NODE_JOB_FAILURE_TOLERANCE", "DAGMAN_REMOVE_JOB_LIST_ON_FAILURE",
    "DAGMAN_DEFAULT_APPEND_VARS", "DAGMAN_MUNGE_NODE_NAMES", "DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS",
    "DAGMAN_REMOVE_NODE_JOBS", "DAGMAN_MAX_RESCUE_NUM", "DAGMAN_RESET_RETRIES_UPON_RESCUE",
    "DAGMAN_USER_LOG_SCAN_INTERVAL", "DAGMAN_QUEUE_UPDATE_INTERVAL", "DAGMAN_SUPPRESS_JOB_LOGS",
    "DAGMAN_NODE_RECORD_INFO", "DAGMAN_MAX_SUBMITS_PER_INTERVAL", "DAGMAN_PUT_FAILED_JOBS_ON_HOLD",
    "DAGMAN_PROHIBIT_MULTI_JOBS", "DAGMAN_INHERIT_ATTRS", "DAGMAN_INHERIT_ATTRS_PREFIX", "DAGMAN_DEFAULT_NODE_LOG",
    "DAGMAN_SUPPRESS_NOTIFICATION", "DAGMAN_RECORD_MACHINE_ATTRS",
)  # fmt: skip
#: Knobs that would change what a DAG does, and that the runner does not follow yet: what they must be.
_REFUSED: Mapping[str, bool] = {
    "DAGMAN_GENERATE_SUBDAG_SUBMITS": True, "DAGMAN_USE_OLD_FILE_PARSER": False,
}  # fmt: skip
#: The code of a doubt about a knob in a CONFIG file.
NOT_OF_DAGS = "config-not-of-dags"
#: A limit only where it is set: its default makes up for a runner that looks every few seconds.
_SUBMITS = "DAGMAN_MAX_SUBMITS_PER_INTERVAL"
#: Throttles: the option's field, the knob, and the rule that it sets.
_THROTTLES = (
    ("max_jobs", "DAGMAN_MAX_JOBS_SUBMITTED"),
    ("max_idle", "DAGMAN_MAX_JOBS_IDLE"),
    ("max_pre", "DAGMAN_MAX_PRE_SCRIPTS"),
    ("max_post", "DAGMAN_MAX_POST_SCRIPTS"),
    ("max_hold", "DAGMAN_MAX_HOLD_SCRIPTS"),
)


class RunSettings(Struct, frozen=True):
    """How a DAG is run.

    :ivar rules: for :class:`slotwise._native.DagRun`.
    :ivar scan_s: the longest time between two looks at the log and the halt file, seconds.
    :ivar limits_submits: not more than so many nodes (rules) are submitted in each ``scan_s``.
    :ivar shown_submits: DAGMan_MaxSubmitsPerInterval of the DAG's job.
    :ivar prohibits_many: DAGMAN_PROHIBIT_MULTI_JOBS.
    :ivar silent: no mail about its jobs.
    :ivar machine_attrs: attributes of their slots that jobs, and the log of their ends, get.
    :ivar update_s: the least time between two updates of the DAG's job's ad, seconds.
    """

    rules: dict[str, int | bool]
    reading: ReadOptions
    scan_s: int
    limits_submits: bool
    shown_submits: int
    prohibits_many: bool
    update_s: int
    most_rescues: int
    most_holds: int
    hold_claim_s: int
    priority: int
    keeps_retries: bool
    looks_for_cycles: bool
    suppresses_logs: bool
    records_retry: bool
    inherited: tuple[str, ...]
    inherited_prefix: str
    silent: bool
    machine_attrs: tuple[str, ...]
    nodes_log: str


def configuration(env: Mapping[str, str], home: Path | None, own: str) -> tuple[Config, Config]:
    """The administrator's configuration, and that with the DAG's own CONFIG file ("" for none) on top.

    :raises ConfigError: a file is rejected.
    """
    common = load(env=env, home=home)
    if not own:
        return common, common
    mine = load(Path(own), env={}, home=None)
    names = (*KNOBS, *_REFUSED)
    given = {name: mine.get(name) or "" for name in names if mine.origin(name) not in (None, DEFAULT)}
    return common, load(env=env, home=home, runtime=given)


def unfollowed(knobs: Config) -> Iterator[str]:
    """What the configuration asks of a run that the runner does not do yet, one sentence each."""
    for name, must in _REFUSED.items():
        if _flag(knobs, name, default=must) is not must:
            yield f"{name} = {not must} is not followed yet: leave it out, or run HTCondor's own with -dagman PATH"


def doubts(own: Path) -> Iterator[Problem]:
    """What a DAG's CONFIG file says that its runner does not do: knobs that are none, or are not of DAGs.

    :raises ConfigError: the file is rejected.
    """
    config = load(own, env={}, home=None)
    written = {name.upper(): origin for name, _, origin in config.settings() if origin.file == str(own)}
    told = [problem for problem in check(config, notes=True) if problem.name.upper() in written]
    for name, origin in written.items():
        mine = [problem for problem in told if problem.name.upper() == name]
        yield from mine
        if not mine and name not in (*KNOBS, *_REFUSED):
            yield Problem(
                WARNING, NOT_OF_DAGS, name, f"{name} has no effect in the CONFIG file of a DAG", origin,
                "the administrator's configuration has what is not about DAGs",
            )  # fmt: skip


def settings(options: RunOptions, directory: str, admin: Config, knobs: Config) -> RunSettings:
    """All of it.

    :raises UsageError: the configuration asks for what there is not yet.
    """
    for sentence in unfollowed(knobs):
        raise UsageError(sentence)
    limited = not _flag(admin, "DAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING", default=False)
    rules: dict[str, int | bool] = {}
    for field, knob in _THROTTLES:
        given = getattr(options, field)
        wanted = given if given >= 0 else max(0, knobs.get_int(knob))
        most = max(0, admin.get_int(knob)) if limited else 0
        rules[field] = min(wanted, most) if wanted and most else wanted or most
    submits = knobs.get_int(_SUBMITS)
    rules["max_submits"] = max(0, submits) if knobs.origin(_SUBMITS) not in (None, DEFAULT) else 0
    if limited and admin.origin(_SUBMITS) not in (None, DEFAULT) and (most := max(0, admin.get_int(_SUBMITS))):
        rules["max_submits"] = min(rules["max_submits"] or most, most)
    post, silent = options.always_post, options.suppress_notification
    rules |= {
        "always_post": knobs.get_bool("DAGMAN_ALWAYS_RUN_POST") if post is None else post,
        "depth_first": knobs.get_bool("DAGMAN_SUBMIT_DEPTH_FIRST"),
        "retry_first": knobs.get_bool("DAGMAN_RETRY_NODE_FIRST"),
        "submit_attempts": max(1, min(16, knobs.get_int("DAGMAN_MAX_SUBMIT_ATTEMPTS"))),
        "tolerance": max(0, _number(knobs, "DAGMAN_NODE_JOB_FAILURE_TOLERANCE", 0)),
        "remove_rest": _flag(knobs, "DAGMAN_REMOVE_JOB_LIST_ON_FAILURE", default=True),
        "remove_jobs": knobs.get_bool("DAGMAN_REMOVE_NODE_JOBS"),
        "rescues": knobs.get_int("DAGMAN_MAX_RESCUE_NUM") > 0,
        "holds_failed": knobs.get_bool("DAGMAN_PUT_FAILED_JOBS_ON_HOLD"),
    }
    return RunSettings(
        rules=rules,
        reading=ReadOptions(
            directory=directory,
            use_dag_dir=options.use_dag_dir,
            munge=knobs.get_bool("DAGMAN_MUNGE_NODE_NAMES"),
            any_name=knobs.get_bool("DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS"),
            join=knobs.get_bool("DAGMAN_USE_JOIN_NODES"),
            append_vars=knobs.get_bool("DAGMAN_DEFAULT_APPEND_VARS"),
            strict=knobs.get_int("DAGMAN_USE_STRICT"),
        ),
        limits_submits=bool(rules["max_submits"]),
        shown_submits=max(0, submits),
        prohibits_many=knobs.get_bool("DAGMAN_PROHIBIT_MULTI_JOBS"),
        scan_s=max(1, knobs.get_int("DAGMAN_USER_LOG_SCAN_INTERVAL")),
        update_s=max(1, knobs.get_int("DAGMAN_QUEUE_UPDATE_INTERVAL")),
        most_rescues=max(0, min(999, knobs.get_int("DAGMAN_MAX_RESCUE_NUM"))),
        most_holds=max(0, knobs.get_int("DAGMAN_MAX_JOB_HOLDS")),
        hold_claim_s=max(0, knobs.get_int("DAGMAN_HOLD_CLAIM_TIME")),
        priority=options.priority or knobs.get_int("DAGMAN_DEFAULT_PRIORITY"),
        keeps_retries=not knobs.get_bool("DAGMAN_RESET_RETRIES_UPON_RESCUE"),
        looks_for_cycles=knobs.get_bool("DAGMAN_STARTUP_CYCLE_DETECT"),
        suppresses_logs=knobs.get_bool("DAGMAN_SUPPRESS_JOB_LOGS"),
        records_retry="retry" in (knobs.get("DAGMAN_NODE_RECORD_INFO") or "").lower().replace(",", " ").split(),
        inherited=tuple((knobs.get("DAGMAN_INHERIT_ATTRS") or "").replace(",", " ").split()),
        silent=knobs.get_bool("DAGMAN_SUPPRESS_NOTIFICATION") if silent is None else silent,
        machine_attrs=tuple((knobs.get("DAGMAN_RECORD_MACHINE_ATTRS") or "").replace(",", " ").split()),
        inherited_prefix=knobs.get("DAGMAN_INHERIT_ATTRS_PREFIX") or "",
        nodes_log=knobs.get_text("DAGMAN_DEFAULT_NODE_LOG"),
    )


def _number(knobs: Config, name: str, default: int) -> int:
    """A number that HTCondor's table of knobs lacks."""
    try:
        return int(knobs.get(name) or default)
    except ValueError:
        return default


def _flag(knobs: Config, name: str, *, default: bool) -> bool:
    """A truth that HTCondor's table of knobs may lack."""
    text = (knobs.get(name) or "").strip()
    return truth(text) is True if text else default


__all__ = ["KNOBS", "RunSettings", "configuration", "doubts", "settings", "unfollowed"]

"""Builds the environment of a job: a pure function of job, slot, places and settings.

Order: the starter's own (only if configured), STARTER_JOB_ENVIRONMENT, the job's, then ours. Manual, "Environment
and services for a running job".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct, field

from slotwise.execution.job_view import SCRATCH_TEXT, JobView, NodeView, SlotView


class EnvironmentSettings(Struct, frozen=True):
    """Knobs that shape a job's environment.

    ``inherited``: the part of the starter's own that jobs get. ``extra``: STARTER_JOB_ENVIRONMENT.
    ``assigned``: ENVIRONMENT_FOR_Assigned<tag>, ``unassigned``: ENVIRONMENT_VALUE_FOR_UnAssigned<tag>, both by
    tag in lower case.
    """

    inherited: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    thread_variables: tuple[str, ...] = ()
    sets_home: bool = True
    sets_nvidia: bool = True
    assigned: Mapping[str, str] = field(default_factory=dict)
    unassigned: Mapping[str, str] = field(default_factory=dict)
    bin_directory: str = ""
    #: Directories of commands for the nodes of parallel jobs: condor_ssh and its kin, and commands by HTCondor's names.
    node_commands: tuple[str, ...] = ()
    ports: tuple[int, int] | None = None


class Places(Struct, frozen=True):
    """Where a run's files are."""

    scratch: str
    job_ad: str
    machine_ad: str
    iwd: str
    temporary: str = ""
    wrapper_error: str = ""
    chirp_config: str = ""
    credentials: str = ""


def inherited_part(rule: str | None, own: Mapping[str, str]) -> dict[str, str]:
    """What JOB_INHERITS_STARTER_ENVIRONMENT lets through: false, true, or a list of names and ``PREFIX*`` patterns."""
    word = (rule or "false").strip()
    own = {name: value for name, value in own.items() if not _is_private(name)}
    if word.lower() in ("false", "no", "0", ""):
        return {}
    if word.lower() in ("true", "yes", "1"):
        return own
    wanted = [re.escape(item).replace(r"\*", ".*") for item in word.replace(",", " ").split()]
    pattern = re.compile("|".join(wanted), re.IGNORECASE)
    return {name: value for name, value in own.items() if pattern.fullmatch(name)}


#: Variables that hold a token, or name its file: the one that a job has for its URLs.
TOKENS = ("BEARER_TOKEN", "BEARER_TOKEN_FILE")


def without_tokens(own: Mapping[str, str]) -> dict[str, str]:
    """A daemon's environment for a program that runs as a user: whoever has started the daemons may have had a token,
    and any process of that user reads in /proc what the program is given."""
    return {name: value for name, value in own.items() if name not in TOKENS}


def _is_private(name: str) -> bool:
    """Variables of the daemons themselves, which no job inherits."""
    return name.startswith(("SLOTWISE_", "_CONDOR_", "_SLOTWISE_")) or name in ("CONDOR_CONFIG", "CONDOR_INHERIT")


def build(
    job: JobView, slot: SlotView, places: Places, settings: EnvironmentSettings, *, home: str, marker: str
) -> dict[str, str]:
    """The whole environment of a job. ``marker``: the entry by which its processes are found."""
    env = _around({**settings.inherited, **settings.extra, **job.environment}, slot, places, settings, home)
    if job.node is not None:
        env |= _of_node(job.node, env.get("PATH", ""), settings)
    env["_CHIRP_DELAYED_UPDATE_PREFIX"] = job.remote_update_prefix
    name, _, value = marker.partition("=")
    env[name] = value
    return {name: value.replace(SCRATCH_TEXT, places.scratch) for name, value in env.items()}


def _of_node(node: NodeView, path: str, settings: EnvironmentSettings) -> dict[str, str]:
    """What the node of a parallel job is told. The commands with which nodes find each other come first in its PATH,
    and are what ``condor_config_val LIBEXEC`` prints there."""
    commands = [*settings.node_commands, *([settings.bin_directory] if settings.bin_directory else [])]
    return {
        "_CONDOR_PROCNO": str(node.number),
        "_CONDOR_NPROCS": str(node.count),
        "_CONDOR_REMOTE_SPOOL_DIR": node.spool,
        **({"_CONDOR_LIBEXEC": settings.node_commands[0]} if settings.node_commands else {}),
        "PATH": ":".join([*commands, path or "/usr/local/bin:/usr/bin:/bin"]),
    }


def of_hook(slot: SlotView, places: Places, settings: EnvironmentSettings, *, home: str) -> dict[str, str]:
    """The environment of a hook: what the starter sets for jobs, without what the job's user has written."""
    return _around({}, slot, places, settings, home)


def _around(
    own: Mapping[str, str], slot: SlotView, places: Places, settings: EnvironmentSettings, home: str
) -> dict[str, str]:
    """``own`` entries with those of the starter."""
    env = {**own, **_ours(slot, places, settings)}
    for name in ("TMPDIR", "TEMP", "TMP"):
        env.setdefault(name, places.temporary or places.scratch)
    if slot.cpus >= 1:
        for name in settings.thread_variables:
            if not env.get(name):
                env[name] = str(int(slot.cpus))
    if settings.sets_home and home and "HOME" not in env:
        env["HOME"] = home
    env |= assigned_devices(slot, settings)
    return env


def _ours(slot: SlotView, places: Places, settings: EnvironmentSettings) -> dict[str, str]:
    env = {
        "BATCH_SYSTEM": "HTCondor",
        "_CONDOR_SCRATCH_DIR": places.scratch,
        "_CONDOR_SLOT": slot.name.partition("@")[0],
        "_CONDOR_JOB_AD": places.job_ad,
        "_CONDOR_MACHINE_AD": places.machine_ad,
        "_CONDOR_JOB_IWD": places.iwd,
        "_CONDOR_JOB_PIDS": "",
        "APPTAINER_CACHEDIR": places.scratch,
        "SINGULARITY_CACHEDIR": places.scratch,
    }
    optional = {
        "_CONDOR_BIN": settings.bin_directory,
        "_CONDOR_WRAPPER_ERROR_FILE": places.wrapper_error,
        "_CONDOR_CHIRP_CONFIG": places.chirp_config,
        "_CONDOR_CREDS": places.credentials,
    }
    env |= {name: value for name, value in optional.items() if value}
    if settings.ports:
        env["_CONDOR_LOWPORT"], env["_CONDOR_HIGHPORT"] = map(str, settings.ports)
    return env


def assigned_devices(slot: SlotView, settings: EnvironmentSettings) -> dict[str, str]:
    """Variables that name the slot's devices."""
    env: dict[str, str] = {}
    for tag in slot.machine_resources:
        devices = slot.assigned.get(tag)
        template = settings.assigned.get(tag.lower(), "")
        if devices is None and not template:
            continue
        value = devices if devices is not None else settings.unassigned.get(tag.lower(), "")
        env.update(_from_template(template, value))
        env[f"_CONDOR_Assigned{tag}"] = value
        if tag.lower() == "gpus" and settings.sets_nvidia:
            env["NVIDIA_VISIBLE_DEVICES"] = ",".join(slot.gpu_uuids) or devices or "none"
            if slot.gpu_uuids:
                # CUDA takes a list of whole UUIDs only, and two devices may share the beginnings that slots show: as in
                # HTCondor, whatever ENVIRONMENT_FOR_AssignedGPUs says.
                env["CUDA_VISIBLE_DEVICES"] = env["NVIDIA_VISIBLE_DEVICES"]
    return env


_RULE = re.compile(r"\s*(?P<name>\w+)\s*(?:=\s*(?P<mark>\S)(?P<rest>.*))?$", re.DOTALL)


class _Rule(Struct, frozen=True):
    """One variable. ``pattern``: what is replaced in the name of each device; None: the names as they are."""

    name: str
    pattern: re.Pattern[str] | None
    replacement: str = ""


@lru_cache(maxsize=256)
def _rules(template: str) -> tuple[tuple[_Rule, ...], str]:
    """The variables of ENVIRONMENT_FOR_Assigned<tag>, ``NAME`` alone or ``NAME=/pattern/replacement/`` once or more.

    And what is wrong with the first that is none, behind which HTCondor reads no further, either; "" when nothing is.
    """
    rules: list[_Rule] = []
    rest = template
    while rest.strip():
        found = _RULE.match(rest)
        if not found:
            return tuple(rules), f"{rest.strip()!r} is neither NAME nor NAME=/pattern/replacement/"
        name, mark = found["name"], found["mark"]
        if mark is None:
            rules.append(_Rule(name, None))
            break
        parts = found["rest"].split(mark, 2)
        if len(parts) < 3:
            return tuple(rules), f"{name} needs /pattern/replacement/, with the same mark three times"
        pattern, replacement, rest = parts[0], parts[1], parts[2].lstrip(",")
        try:
            rules.append(_Rule(name, re.compile(pattern), replacement))
        except re.error as error:
            return tuple(rules), f"{pattern!r} of {name} is not a regular expression ({error})"
    return tuple(rules), ""


def template_fault(template: str) -> str:
    """What in a value of ENVIRONMENT_FOR_Assigned<tag> is wrong and sets no variable, in words; "" when nothing is."""
    return _rules(template)[1]


@lru_cache(maxsize=256)
def _from_template(template: str, devices: str) -> Mapping[str, str]:
    """The variables of ENVIRONMENT_FOR_Assigned<tag>."""
    env: dict[str, str] = {}
    names = devices.replace(",", " ").split()
    for rule in _rules(template)[0]:
        if rule.pattern is None:
            numbered = rule.name in ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
            env[rule.name] = _digits(devices) if numbered else devices
        elif rule.name == "CUDA_VISIBLE_DEVICES" and not rule.pattern.pattern:
            env[rule.name] = _digits(devices)
        else:
            text = _expansion(rule)
            env[rule.name] = ",".join(rule.pattern.sub(text, device, count=1) for device in names)
    return env


def _expansion(rule: _Rule) -> Callable[[re.Match[str]], str]:
    """What stands for a match: the replacement, its ``$1`` filled in; a group that is not there is empty."""

    def text(found: re.Match[str]) -> str:
        def group(number: re.Match[str]) -> str:
            index = int(number[1])
            return (found[index] or "") if index <= found.re.groups else ""

        return re.sub(r"\$(\d)", group, rule.replacement)

    return text


def _digits(devices: str) -> str:
    """Device numbers without the letters before them."""
    return "".join(char for char in devices if char.isdigit() or char == ",")

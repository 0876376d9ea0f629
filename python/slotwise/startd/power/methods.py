"""How this machine is put to sleep: HIBERNATION_PLUGIN, pm-utils, /sys/power, /proc/acpi or systemd's logind.

A method is what it is called, the levels that it has, and the commands that bring each about. Finding out runs
programs; going to sleep is for the caller to do.

Source: manual, "Linux Platform Details" and HIBERNATION_PLUGIN; HTCondor's hibernator.linux.cpp.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from slotwise.classad.stream import parse_ads
from slotwise.config import Config
from slotwise.daemon import children
from slotwise.daemon.privileges import root_files
from slotwise.daemon.program_trust import fault_for_root
from slotwise.errors import SlotwiseError
from slotwise.model.power.levels import level_of, levels_in, name_of

_log = logging.getLogger(__name__)
#: How long a program that reports what the machine can do may take (seconds).
_ASK_S = 20
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_LOGIND_VERBS = {3: "Suspend", 4: "Hibernate", 5: "PowerOff"}
#: The name of HTCondor's own plug-in; where it is not installed, what it does is done here.
_OWN_PLUGIN = "condor_power_state"
METHODS = ("pm-utils", "/sys", "/proc", "logind")

Commands = tuple[tuple[str, ...], ...]


class Method(Struct, frozen=True):
    """How the machine is put to sleep: for each level, commands to be run one after the other."""

    name: str = "NONE"
    commands: Mapping[int, Commands] = field(default_factory=dict)

    @property
    def levels(self) -> frozenset[int]:
        """The levels that can be reached."""
        return frozenset(self.commands)


def find(config: Config, root: Path = Path("/")) -> Method:
    """The method that the configuration names, or the first that works; one without levels when none does."""
    plugin = config.get_text("HIBERNATION_PLUGIN")
    if plugin and not (Path(plugin).name == _OWN_PLUGIN and shutil.which(plugin) is None):
        return of_plugin(plugin, config.get_list("HIBERNATION_PLUGIN_ARGS"), debug=config.get_bool("HIBERNATION_DEBUG"))
    wanted = config.get_text("LINUX_HIBERNATION_METHOD")
    if wanted and wanted.lower() not in METHODS:
        _log.error("LINUX_HIBERNATION_METHOD is %s, not one of %s: hibernation is disabled", wanted, ", ".join(METHODS))
        return Method()
    finders = {"pm-utils": of_pm_utils, "/sys": of_sys, "/proc": of_proc, "logind": of_logind}
    for name in [wanted.lower()] if wanted else METHODS:
        found = finders[name](root)
        if found.levels:
            return found
    if wanted:
        _log.error("the hibernation method %s does not work on this machine: hibernation is disabled", wanted)
    return Method()


def of_plugin(plugin: str, args: Sequence[str], *, debug: bool = False) -> Method:
    """What a plug-in says of itself: ``PLUGIN ARGS ad`` prints an ad; ``PLUGIN ARGS set LEVEL`` is to come."""
    found = shutil.which(plugin)
    with root_files():
        wrong = "is not there, or no program" if found is None else fault_for_root(os.path.abspath(found))  # noqa: PTH100
    if wrong and os.geteuid() == 0:
        _log.error("HIBERNATION_PLUGIN (%s) %s: not used: it would run as root", plugin, wrong)
        return Method()
    said = _answer((plugin, *args, "ad"))
    if said is None:
        return Method()
    try:
        ad = next(parse_ads(said, format="old"), None)
        states = ad.eval("HibernationSupportedStates") if ad is not None else None
    except (SlotwiseError, ValueError) as error:
        _log.error("HIBERNATION_PLUGIN: the output of %s ad is not an ad: %s", plugin, error)
        return Method()
    if not isinstance(states, str):
        _log.error("HIBERNATION_PLUGIN: the ad of %s has no HibernationSupportedStates", plugin)
        return Method()
    method = ad.eval("HibernationMethod") if ad is not None else None
    options = ("-d",) if debug else ()
    commands = {level: ((plugin, *options, *args, "set", name_of(level)),) for level in levels_in(states)}
    return Method(method if isinstance(method, str) else "plug-in", commands)


def of_pm_utils(root: Path) -> Method:
    """Suspend and hibernate of pm-utils, as far as they say that they work here."""
    ask = root / "usr/bin/pm-is-supported"
    if not ask.exists():
        return Method("pm-utils")
    commands: dict[int, Commands] = {}
    for level, option, program in ((3, "--suspend", "pm-suspend"), (4, "--hibernate", "pm-hibernate")):
        if _answer((str(ask), option), quiet=True) is not None:
            commands[level] = ((str(root / "usr/sbin" / program),),)
    return Method("pm-utils", commands)


def of_sys(root: Path) -> Method:
    """/sys/power, where this process may write there."""
    state, disk = root / "sys/power/state", root / "sys/power/disk"
    words = _words(state)
    if not words or not os.access(state, os.W_OK):
        return Method("/sys")
    modes = [word.strip("[]") for word in _words(disk)]
    commands: dict[int, Commands] = {}
    for word in words:
        level = level_of(word)
        if level in (1, 3):
            commands[level] = (_written(word, state),)
    if "disk" in words and "platform" in modes:
        commands[4] = (_written("platform", disk), _written("disk", state))
    elif "disk" in words:
        commands[4] = (_written("disk", state),)
    if "shutdown" in modes:
        commands[5] = (("/sbin/poweroff",),)
    return Method("/sys", commands)


def of_proc(root: Path) -> Method:
    """/proc/acpi/sleep of old kernels."""
    path = root / "proc/acpi/sleep"
    if not os.access(path, os.W_OK):
        return Method("/proc")
    levels = {level_of(word) for word in _words(path)} - {0}
    return Method("/proc", {level: (_written(str(level), path),) for level in levels})


def of_logind(root: Path) -> Method:
    """systemd's logind, which also a startd without root may ask where the site's rules say so."""
    busctl = shutil.which("busctl")
    if busctl is None or not (root / "run/systemd/seats").exists():
        return Method("logind")
    commands: dict[int, Commands] = {}
    for level, verb in _LOGIND_VERBS.items():
        if (_answer((busctl, "call", *_LOGIND, f"Can{verb}"), quiet=True) or "").strip() == 's "yes"':
            commands[level] = ((busctl, "call", *_LOGIND, verb, "b", "false"),)
    return Method("logind", commands)


def _written(word: str, path: Path) -> tuple[str, ...]:
    """A command that writes a word into a file of the kernel, and waits as long as that takes."""
    return ("/bin/sh", "-c", 'printf %s "$1" > "$2"', "sh", word, str(path))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _answer(command: Sequence[str], *, quiet: bool = False) -> str | None:
    """What a program prints; None when it fails."""
    try:
        ended = children.run_command_blocking(command, limit_s=_ASK_S)
    except OSError as error:
        why = str(error)
    else:
        if ended.timed_out:
            why = f"no end after {_ASK_S} s"
        elif ended.status == 0:
            return ended.output.decode(errors="replace")
        else:
            why = f"exit status {ended.status} {ended.said[-200:]}"
    if not quiet:
        _log.error("cannot use %s: %s", " ".join(command), why)
    return None

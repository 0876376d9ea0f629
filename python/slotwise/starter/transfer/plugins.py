"""Transfer plugins: those of the host (FILETRANSFER_PLUGINS), and those that a job brings (``transfer_plugins``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from slotwise import curl_plugin
from slotwise.classad import ClassAd, ExprTree, parse_ads
from slotwise.daemon import own_programs
from slotwise.execution import child_programs
from slotwise.execution.environment import TOKENS, inherited_part, without_tokens
from slotwise.starter.job.ads import evaluate, lookup
from slotwise.transfer.lists import job_plugins

_log = logging.getLogger(__name__)
_PROBE_S = 20.0
_PATH = "/usr/local/bin:/usr/bin:/bin"
#: Variables of the starter's that plugins of jobs get.
_TO_JOBS_OWN = "PATH, LANG, LC_*, TZ, *_PROXY"


class Plugin(Struct, frozen=True):
    """A program that moves URLs. ``version`` is that of the protocol that it speaks (2, or 4)."""

    program: str
    version: int = 2
    serves_pelican: bool = False
    from_job: bool = False
    #: Why it must not be used, or empty.
    refused: str = ""

    @property
    def name(self) -> str:
        """What variables of a job's environment are meant for it begin with, before an underscore."""
        if self.serves_pelican:
            return "PELICAN"
        base = PurePath(self.program).name
        start, mark, _ = base.partition("_plugin")
        return (start if mark else PurePath(base).stem).upper()

    def words(self) -> list[str]:
        """The beginning of the command line that calls it."""
        return own_programs.to_run([self.program])

    def part_of(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables of a job's environment that are for this plugin; the token that it has is for every one."""
        start = f"{self.name}_"
        return {name: value for name, value in environment.items() if name.upper().startswith(start) or name in TOKENS}


class Plugins(Struct, frozen=True):
    """Plugins by the methods that they serve (``http``), and the file that has what they report ("" for none)."""

    by_method: Mapping[str, Plugin]
    stats_log: str = ""
    #: The longest time of one call, seconds (MAX_FILE_TRANSFER_PLUGIN_LIFETIME).
    lifetime_s: float = 72000.0
    #: STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS, over the machine's ad (MY) and the job's (TARGET).
    disables_jobs_own: ExprTree | None = None

    @property
    def methods(self) -> str:
        """HasFileTransferPluginMethods."""
        return ",".join(sorted(self.by_method))

    def of_job(self, ad: ClassAd, machine: ClassAd, scratch: Path) -> Mapping[str, Plugin]:
        """Those for one job, with its own before the host's: they lie in its scratch directory. Where the host lets
        jobs have none, a job's own is refused when it is needed (true or 1), or the host's is used instead (2).
        """
        listed = lookup(ad)("TransferPlugins")
        disabled = None if self.disables_jobs_own is None else evaluate(self.disables_jobs_own, machine, ad)
        number = int(disabled) if isinstance(disabled, bool | int | float) else 0
        if not isinstance(listed, str) or number == 2:
            return self.by_method
        refused = "user-supplied plugin {} not allowed" if number > 0 else ""
        found = dict(self.by_method)
        for methods, path in job_plugins(listed):
            program = str(scratch / PurePath(path).name)
            plugin = Plugin(program, 2, "pelican" in methods, from_job=True, refused=refused.format(program))
            found.update(dict.fromkeys(methods, plugin))
        return found


async def find_plugins(programs: Iterable[str], control: Path) -> Mapping[str, Plugin]:
    """Ask each program what it serves. One that cannot be asked serves nothing; the last for a method has it.

    What serves nothing is logged, but not programs that are not there: FILETRANSFER_PLUGINS names some by default.
    """
    found: dict[str, Plugin] = {}
    for program in programs:
        if own_programs.to_run([program]) != [program]:  # ours: known without a process
            found.update(dict.fromkeys(curl_plugin.METHODS, Plugin(program, 4)))
            continue
        if not Path(program).exists():
            continue
        ad, why = await _ask(program, control)
        methods = str(lookup(ad)("SupportedMethods") or "").replace(",", " ").lower().split()
        why = why or ("" if methods else "`-classad` prints no SupportedMethods")
        if why:
            _log.warning("FILETRANSFER_PLUGINS: %s serves no URLs: %s", program, why)
        version = lookup(ad)("ProtocolVersion")
        plugin = Plugin(program, version if isinstance(version, int) else 2, "pelican" in methods)
        found.update(dict.fromkeys(methods, plugin))
    return found


async def _ask(program: str, control: Path) -> tuple[ClassAd, str]:
    """What a program says of itself, or why it says nothing."""
    nothing = ClassAd({})
    try:
        words = [program, "-classad"]
        status, said, errors = await child_programs.call(words, control, cwd="/", env=inherited(), limit_s=_PROBE_S)
    except OSError as error:
        return nothing, f"it cannot be run: {error.strerror}"
    if status != 0:
        ended = f"exit status {status}" if status > 0 else f"signal {-status}"
        last = errors.strip().rpartition("\n")[2]
        return nothing, f"`-classad` ended with {ended}" + (f": {last}" if last else "")
    try:
        return next(iter(parse_ads(said)), nothing), ""
    except ValueError as error:
        return nothing, f"`-classad` does not print an ad: {error}"


def inherited(*, jobs_own: bool = False) -> dict[str, str]:
    """What plugins have of the starter's environment, as in HTCondor all that is not the daemons' own: a PATH with the
    site's interpreters, proxies of the network (``http_proxy``).

    The daemons have been started by somebody who may have a token (``BEARER_TOKEN``): that is not for servers that jobs
    name. A plugin that the job brings gets no more of the environment than what it needs to reach them.
    """
    env = without_tokens(inherited_part(_TO_JOBS_OWN if jobs_own else "true", os.environ))
    places = [*env.get("PATH", "").split(":"), *_PATH.split(":")]
    return {**env, "PATH": ":".join(dict.fromkeys(filter(None, places)))}

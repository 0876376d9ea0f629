"""Inputs that are URLs, and outputs that go to URLs: moved by plugins (FILETRANSFER_PLUGINS) beside the job.

A plugin called with ``-classad`` tells which methods it serves; called with ``-infile FILE -outfile FILE`` (and
``-upload``) it reads one ad for each file (Url, LocalFileName) and writes one (TransferSuccess, TransferError). Plugins
run as the job's user in its directory. HTCondor manual, "File Transfer Plugins".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct

from slotwise.classad import ClassAd, parse_ads
from slotwise.execution import child_programs
from slotwise.execution.environment import inherited_part
from slotwise.execution.exit_status import TRANSFER_INPUT_ERROR, TRANSFER_OUTPUT_ERROR, End, held
from slotwise.execution.job_view import STDERR_NAME, STDOUT_NAME
from slotwise.execution.launcher import write_files
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import PluginFault
from slotwise.starter.enforcement.privilege import read_small, rights_of
from slotwise.starter.hooks.run_programs import ChildPrograms
from slotwise.starter.job.ads import lookup, pack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import Update
from slotwise.starter.transfer import plugin_results
from slotwise.starter.transfer.plugin_results import PluginResults, TransferClass
from slotwise.starter.transfer.run_files import RunFiles

_log = logging.getLogger(__name__)
_PROBE_S, _MOVE_S = 20.0, 3600.0
#: Most that a plugin may say about its files, bytes.
_MOST_SAID = 16 * 1024 * 1024
_PATH = "/usr/local/bin:/usr/bin:/bin"


class TransferringRun(Protocol):
    """What plugins need of a run."""

    assignment: Assignment
    job: RunJob
    programs: ChildPrograms
    files: RunFiles
    shadow: ShadowConnection


class Plugins(Struct, frozen=True):
    """Programs by the methods that they serve (``http``), and the file that has what they report ("" for none)."""

    by_method: Mapping[str, str]
    stats_log: str = ""

    @property
    def methods(self) -> str:
        """HasFileTransferPluginMethods."""
        return ",".join(sorted(self.by_method))


async def find_plugins(programs: Iterable[str], control: Path, stats_log: str = "") -> Plugins:
    """Ask each program what it serves. One that cannot be asked serves nothing; the first for a method has it.

    What serves nothing is logged, but not programs that are not there: FILETRANSFER_PLUGINS names some by default.
    """
    found: dict[str, str] = {}
    for program in programs:
        if not Path(program).exists():
            continue
        methods, why = await _methods_of(program, control)
        if why:
            _log.warning("FILETRANSFER_PLUGINS: %s serves no URLs: %s", program, why)
        for method in methods:
            found.setdefault(method, program)
    return Plugins(found, stats_log)


async def _methods_of(program: str, control: Path) -> tuple[list[str], str]:
    """The methods that a program serves, or why there are none."""
    try:
        words = [program, "-classad"]
        status, said, errors = await child_programs.call(words, control, cwd="/", env=_inherited(), limit_s=_PROBE_S)
    except OSError as error:
        return [], f"it cannot be run: {error.strerror}"
    if status != 0:
        ended = f"exit status {status}" if status > 0 else f"signal {-status}"
        last = errors.strip().rpartition("\n")[2]
        return [], f"`-classad` ended with {ended}" + (f": {last}" if last else "")
    try:
        methods = lookup(next(iter(parse_ads(said)), ClassAd({})))("SupportedMethods")
    except ValueError as error:
        return [], f"`-classad` does not print an ad: {error}"
    found = str(methods or "").replace(",", " ").lower().split()
    return found, "" if found else "`-classad` prints no SupportedMethods"


def _inherited() -> dict[str, str]:
    """What plugins have of the starter's environment, as in HTCondor all that is not the daemons' own: a PATH with the
    site's interpreters, proxies of the network (``http_proxy``).
    """
    env = inherited_part("true", os.environ)
    places = [*env.get("PATH", "").split(":"), *_PATH.split(":")]
    return {**env, "PATH": ":".join(dict.fromkeys(filter(None, places)))}


def method_of(url: str) -> str:
    """The method of a URL."""
    return url.partition("://")[0].lower()


def input_urls(ad: ClassAd) -> list[str]:
    """The inputs of a job that are URLs."""
    listed = lookup(ad)("TransferInput")
    names = listed.split(",") if isinstance(listed, str) else []
    return [name.strip() for name in names if "://" in name]


def output_urls(ad: ClassAd, names: Iterable[str]) -> dict[str, str]:
    """Which of the outputs ``names`` go to which URL (remaps, or all with ``output_destination``)."""
    value = lookup(ad)
    remaps = value("TransferOutputRemaps")
    pairs = (pair.partition("=") for pair in (remaps.split(";") if isinstance(remaps, str) else []))
    found = {name.strip(): target.strip() for name, _, target in pairs if "://" in target}
    everywhere = value("OutputDestination")
    if isinstance(everywhere, str) and "://" in everywhere:
        # Standard output and error go back to the access point all the same.
        results = [name for name in names if name not in (STDOUT_NAME, STDERR_NAME)]
        start = everywhere if everywhere.endswith("/") else f"{everywhere}/"
        found = {name: start + name for name in results} | found
    return {name: found[name] for name in names if name in found}


async def fetch(run: TransferringRun, plugins: Plugins) -> None:
    """Bring the inputs that are URLs into the scratch directory.

    :raises LaunchRefusedError: on hold (13) when one cannot be had.
    """
    files = {url: PurePosixPath(url.partition("://")[2].partition("?")[0]).name for url in input_urls(run.job.ad)}
    end = await _move(run, plugins, files, upload=False)
    if end is not None:
        raise LaunchRefusedError(end)


async def deliver(run: TransferringRun, plugins: Plugins, outputs: Mapping[str, str]) -> End | None:
    """Send outputs (name to URL) away; what the run ends with when one cannot be sent."""
    return await _move(run, plugins, {url: name for name, url in outputs.items()}, upload=True)


async def _move(run: TransferringRun, plugins: Plugins, files: Mapping[str, str], *, upload: bool) -> End | None:
    results = PluginResults(TransferClass.OUTPUT if upload else TransferClass.INPUT)
    try:
        return await _move_all(run, plugins, files, results, upload=upload)
    finally:
        if told := results.report():
            run.shadow.report(Update(pack_one(told)))
        await asyncio.to_thread(plugin_results.append, plugins.stats_log, results.files, run.job.ad)


async def _move_all(
    run: TransferringRun, plugins: Plugins, files: Mapping[str, str], results: PluginResults, *, upload: bool
) -> End | None:
    code, word = (TRANSFER_OUTPUT_ERROR, "output") if upload else (TRANSFER_INPUT_ERROR, "input")
    start = f"Transfer {word} files failure at execution point"
    for method in sorted({method_of(url) for url in files}):
        program = plugins.by_method.get(method)
        if program is None:
            return held(f"{start}. Details: no plugin serves {method}://", code, PluginFault.NOT_FOUND)
        mine = {url: name for url, name in files.items() if method_of(url) == method}
        status, errors, fault = await _call(run, program, mine, results, upload=upload)
        if status != 0 or errors:
            details = "; ".join(errors) or f"{Path(program).name} exited with status {status}"
            # As HTCondor's: an exit status is shifted, a signal is not; policies such as PelicanRetryPolicy read it.
            subcode = fault or (status << 8 if status > 0 else max(1, -status))
            return held(f"{start} using plugin {Path(program).name}. Details: {details}", code, subcode)
    return None


async def _call(
    run: TransferringRun, program: str, files: Mapping[str, str], results: PluginResults, *, upload: bool
) -> tuple[int, list[str], PluginFault | None]:
    """One call of a plugin: exit status, what it says went wrong, and what is wrong with the plugin itself."""
    scratch = run.assignment.directory.scratch
    ads = [ClassAd({"Url": url, "LocalFileName": str(scratch / name)}) for url, name in files.items()]
    asked, said = run.assignment.directory.control / "plugin.in", scratch / ".plugin.out"
    # For the job's account alone: URLs may hold credentials.
    text = "".join(f"{ad}\n" for ad in ads).encode("utf-8", "surrogateescape")
    write_files([(str(asked), 0o600, run.job.identity.owner, text)])
    with contextlib.suppress(OSError):
        said.unlink()  # not what the job itself has put there
    words = [program, "-infile", str(asked), "-outfile", str(said), *(["-upload"] if upload else [])]
    env = {**_inherited(), "_CONDOR_JOB_AD": str(run.assignment.directory.job_ad)}
    try:
        began = time.monotonic()
        called = await run.programs.call(words, env=env, limit_s=_MOVE_S)
        seconds = time.monotonic() - began
        child_programs.log_errors(doing_for_run(run.assignment.run_id, f"plugin {Path(program).name}"), called)
        status = called.status
        if why := child_programs.unstarted(called):
            return status, [f"{Path(program).name} cannot be run: {why}"], PluginFault.EXEC_FAILED
        method = method_of(next(iter(files)))
        results.add_call(program, method, status, seconds, timed_out=seconds >= _MOVE_S)
    except OSError as error:
        return error.errno or 1, [f"{Path(program).name} cannot be run: {error.strerror}"], PluginFault.EXEC_FAILED
    errors: list[str] = []
    fault: PluginFault | None = None
    traffic = run.files.sent if upload else run.files.received
    with contextlib.suppress(OSError, ValueError):
        text_said = read_small(said, run.job.identity, _MOST_SAID)
        fault = PluginFault.NO_RESULT_REPORTED  # as long as there is no ad
        for answer in parse_ads(text_said):
            fault = None
            results.add_file(answer, status)
            value = lookup(answer)
            size = value("TransferTotalBytes")
            if value("TransferSuccess") is True:
                means = method_of(str(value("TransferUrl") or next(iter(files)))).upper()
                traffic.add(means, 1, size if isinstance(size, int) else 0)
            else:
                errors.append(str(value("TransferError") or f"{value('TransferUrl')} failed"))
    with contextlib.suppress(OSError):
        said.unlink()
    if status == 0 and not errors and not upload:
        errors = _not_brought(run, files)
    return status, errors, fault


def _not_brought(run: TransferringRun, files: Mapping[str, str]) -> list[str]:
    """What is not there although the plugin says nothing of a failure."""
    with rights_of(run.job.identity):
        return [
            f"{url} was not brought"
            for url, name in files.items()
            if not (run.assignment.directory.scratch / name).exists()
        ]

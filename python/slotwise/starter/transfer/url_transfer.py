"""Inputs that are URLs, and outputs that go to URLs: moved by plugins (FILETRANSFER_PLUGINS) beside the job.

A plugin called with ``-classad`` tells which methods it serves; called with ``-infile FILE -outfile FILE`` (and
``-upload``) it reads one ad for each file (Url, LocalFileName) and writes one (TransferSuccess, TransferError). Plugins
run as the job's user in its directory. HTCondor manual, "File Transfer Plugins".
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import ClassAd, parse_ads
from slotwise.execution import child_programs
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
from slotwise.starter.transfer.plugins import Plugin, Plugins, inherited
from slotwise.starter.transfer.run_files import RunFiles
from slotwise.starter.transfer.transfer_stats import Traffic
from slotwise.starter.transfer.wording import failure
from slotwise.transfer.lists import input_list, parse_remaps

#: Most that a plugin may say about its files, bytes.
_MOST_SAID = 16 * 1024 * 1024


class TransferringRun(Protocol):
    """What plugins need of a run."""

    assignment: Assignment
    job: RunJob
    programs: ChildPrograms
    files: RunFiles
    shadow: ShadowConnection


def method_of(url: str) -> str:
    """The method of a URL, without the credential that may stand before it (``box+https://``)."""
    return url.partition("://")[0].rpartition("+")[2].lower()


def input_urls(ad: ClassAd) -> list[str]:
    """The inputs of a job that are URLs."""
    return [name for name in input_list(lookup(ad)) if "://" in name]


def output_urls(ad: ClassAd, names: Iterable[str]) -> dict[str, str]:
    """Which of the outputs ``names`` go to which URL (remaps, or all with ``output_destination``)."""
    value = lookup(ad)
    remaps = value("TransferOutputRemaps")
    pairs = parse_remaps(remaps) if isinstance(remaps, str) else {}
    found = {name: target for name, target in pairs.items() if "://" in target}
    everywhere = value("OutputDestination")
    if isinstance(everywhere, str) and "://" in everywhere:
        # Standard output and error go back to the access point all the same.
        results = [name for name in names if name not in (STDOUT_NAME, STDERR_NAME)]
        start = everywhere if everywhere.endswith("/") else f"{everywhere}/"
        found = {name: start + name for name in results} | found
    return {name: found[name] for name in names if name in found}


def input_names(ad: ClassAd) -> dict[str, str]:
    """The inputs of a job that are URLs, and their names in its scratch directory."""
    return {url: PurePosixPath(url.partition("://")[2].partition("?")[0]).name for url in input_urls(ad)}


async def fetch(run: TransferringRun, plugins: Plugins) -> None:
    """Bring the inputs that are URLs into the scratch directory.

    :raises LaunchRefusedError: on hold (13) when one cannot be had.
    """
    files = [(url, name) for url, name in input_names(run.job.ad).items()]
    if (end := await _move(run, plugins, files, TransferClass.INPUT)) is not None:
        raise LaunchRefusedError(end)


async def deliver(run: TransferringRun, plugins: Plugins, outputs: Mapping[str, str]) -> End | None:
    """Send outputs (name to URL) away; what the run ends with when one cannot be sent."""
    files = [(url, name) for name, url in outputs.items()]
    return await _move(run, plugins, files, TransferClass.OUTPUT)


async def store(run: TransferringRun, plugins: Plugins, files: list[tuple[str, str]]) -> PluginFailure | None:
    """Send the files of a checkpoint (URLs and paths) away; why they are not all there."""
    return await _try(run, plugins, files, TransferClass.CHECKPOINT)


async def bring_back(run: TransferringRun, plugins: Plugins, files: list[tuple[str, str]]) -> None:
    """Bring the files of a checkpoint (URLs, and names in the scratch directory) back.

    :raises LaunchRefusedError: on hold (13) when one cannot be had.
    """
    if (end := await _move(run, plugins, files, TransferClass.INPUT)) is not None:
        raise LaunchRefusedError(end)


async def _move(run: TransferringRun, plugins: Plugins, files: list[tuple[str, str]], way: TransferClass) -> End | None:
    problem = await _try(run, plugins, files, way)
    if problem is None:
        return None
    inputs = way is TransferClass.INPUT
    reason = failure(run.assignment, run.job, problem.details, inputs=inputs, protocol=problem.protocol)
    return held(reason, TRANSFER_INPUT_ERROR if inputs else TRANSFER_OUTPUT_ERROR, problem.subcode)


async def _try(
    run: TransferringRun, plugins: Plugins, files: list[tuple[str, str]], way: TransferClass
) -> PluginFailure | None:
    results = PluginResults(way)
    by_method = plugins.of_job(run.job.ad, run.assignment.machine_ad, run.assignment.directory.scratch)
    groups: dict[Plugin, list[tuple[str, str]]] = {}
    upload = way is not TransferClass.INPUT
    for url, name in files:
        plugin = by_method.get(method_of(url))
        if plugin is None:
            details = f"no plugin serves {method_of(url)}://"
        elif plugin.refused:
            details = plugin.refused
        else:
            groups.setdefault(plugin, []).append((url, name))
            continue
        fault = PluginFault.NOT_FOUND if plugin is None else PluginFault.NOT_OPERATIONAL
        return PluginFailure(details, fault)
    problems: list[PluginFailure] = []
    try:
        for plugin, some in sorted(groups.items(), key=lambda group: group[0].program):
            problem = await _call(run, plugin, some, results, upload=upload, limit_s=plugins.lifetime_s)
            if problem is not None:
                problems.append(problem)
                if upload:
                    break
        return _of_all(problems)
    finally:
        if told := results.report():
            run.shadow.report(Update(pack_one(told)))
        await asyncio.to_thread(plugin_results.append, plugins.stats_log, results.files, run.job.ad)


def _of_all(problems: list[PluginFailure]) -> PluginFailure | None:
    """What plugins that were called one after another have failed of: as in HTCondor, which calls all for inputs in
    the order of their paths, the last counts; it has no bar at its end then, as a single failure has."""
    if not problems:
        return None
    *before, last = problems
    return replace(last, details=last.details.rstrip("|")) if before else last


class PluginFailure(Struct, frozen=True):
    """Why a plugin has failed, or there is none; ``protocol`` of the URL that is to blame, if one is. ``said``: it has
    ended with an error, and has told of which file."""

    details: str
    subcode: int
    protocol: str = ""
    said: bool = False


async def _call(
    run: TransferringRun,
    plugin: Plugin,
    files: list[tuple[str, str]],
    results: PluginResults,
    *,
    upload: bool,
    limit_s: float,
) -> PluginFailure | None:
    """Call a plugin for some files."""
    scratch = run.assignment.directory.scratch
    asked, said = run.assignment.directory.control / "plugin.in", scratch / ".plugin.out"
    # For the job's account alone: URLs may hold credentials.
    text = "".join(f"{ad}\n" for ad in _requests(run.job.ad, plugin, files, scratch))
    write_files([(str(asked), 0o600, run.job.identity.owner, text.encode("utf-8", "surrogateescape"))])
    with contextlib.suppress(OSError):
        said.unlink()  # not what the job itself has put there
    words = [*plugin.words(), "-infile", str(asked), "-outfile", str(said), *(["-upload"] if upload else [])]
    methods = sorted({method_of(url) for url, _ in files})
    began = time.monotonic()
    try:
        called = await run.programs.call(
            words, env=_environment(run, plugin), limit_s=limit_s, jobs_own=_jobs_own(run, plugin)
        )
    except OSError as error:
        return PluginFailure(f"{plugin.program} cannot be run: {error.strerror}", PluginFault.EXEC_FAILED)
    seconds = time.monotonic() - began
    timed_out = seconds >= limit_s
    child_programs.log_errors(doing_for_run(run.assignment.run_id, f"plugin {Path(plugin.program).name}"), called)
    if why := child_programs.unstarted(called):
        return PluginFailure(f"{plugin.program} cannot be run: {why}", PluginFault.EXEC_FAILED)
    status = errno.ETIME if timed_out else called.status
    results.add_call(plugin.program, ",".join(methods), status, seconds, timed_out=timed_out)
    answers = _answers(said, run)
    for answer in answers:
        results.add_file(answer, status)
        _count(run.files.sent if upload else run.files.received, answer, method_of(files[0][0]))
    with contextlib.suppress(OSError):
        said.unlink()
    # As HTCondor's: an exit status is shifted, a signal is not; policies such as PelicanRetryPolicy read it.
    subcode = errno.ETIME if timed_out else status << 8 if status >= 0 else -status
    if not answers:
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        details = f"file transfer plugin {plugin.program} exited ({how}), no valid classads in output file {said}"
        is_the_files = not upload and (timed_out or status < 0)
        return PluginFailure(details, subcode if is_the_files else PluginFault.NO_RESULT_REPORTED)
    failed = [answer for answer in answers if lookup(answer)("TransferSuccess") is not True]
    if failed:
        url = str(lookup(failed[0])("TransferUrl") or files[0][0])
        details = f"{_error(failed[0], plugin)} ( URL file = {url} )" + ("|" if len(failed) == 1 else "")
        return PluginFailure(details, subcode or 1, method_of(url), said=status != 0)
    if status != 0:
        details = f"File transfer plugin {plugin.program} failed unexpectedly with exit code {status}, "
        return PluginFailure(f"{details}did not report a TransferError message.", subcode, methods[0])
    if not upload and (url := _not_brought(run, files)):
        return PluginFailure(f"{url} was not brought", 0, method_of(url))
    return None


def _requests(job: ClassAd, plugin: Plugin, files: list[tuple[str, str]], scratch: Path) -> list[ClassAd]:
    """What a plugin is asked: an ad for each file. PluginData of the job, for all plugins or those of one method, goes
    before them to plugins of version 4, and into each to those of version 2.
    """
    ads = [ClassAd({"Url": url, "LocalFileName": str(scratch / name)}) for url, name in files]
    methods = sorted({method_of(url) for url, _ in files})
    before: list[ClassAd] = []
    for name, method in [("PluginData", ""), *((f"{method}_PluginData", method) for method in methods)]:
        data = job.lookup(name) if name in job else None
        if data is None:
            continue
        if plugin.version == 4:
            before.append(ClassAd({**({"Protocol": method} if method else {}), name: data}))
        else:
            for ad in ads:
                ad[name] = data
    return [*before, *ads]


def _environment(run: TransferringRun, plugin: Plugin) -> dict[str, str]:
    directory = run.assignment.directory
    found = inherited(jobs_own=plugin.from_job) | {
        "_CONDOR_JOB_AD": str(directory.job_ad),
        "_CONDOR_MACHINE_AD": str(directory.machine_ad),
    }
    if run.job.view is not None and run.job.view.proxy_name:
        found["X509_USER_PROXY"] = str(directory.scratch / run.job.view.proxy_name)
    if run.job.view is not None and run.job.view.needs_credentials:
        found["_CONDOR_CREDS"] = str(directory.credentials)
    return found


def _jobs_own(run: TransferringRun, plugin: Plugin) -> dict[str, str]:
    """The variables of the job that are for the plugin."""
    return plugin.part_of(run.job.view.environment) if run.job.view is not None else {}


def _answers(said: Path, run: TransferringRun) -> list[ClassAd]:
    """What a plugin has written of the files: nothing when it cannot be read as ads."""
    try:
        return list(parse_ads(read_small(said, run.job.identity, _MOST_SAID)))
    except (OSError, ValueError):
        return []


def _count(traffic: Traffic, answer: ClassAd, method: str) -> None:
    """Add a file to the traffic of its protocol."""
    value = lookup(answer)
    if value("TransferSuccess") is not True:
        return
    size, protocol = value("TransferTotalBytes"), value("TransferProtocol")
    means = protocol if isinstance(protocol, str) and protocol else method_of(str(value("TransferUrl") or method))
    traffic.add(means.upper(), 1, size if isinstance(size, int) else 0)


def _error(answer: ClassAd, plugin: Plugin) -> str:
    said = lookup(answer)("TransferError")
    if isinstance(said, str):
        return said
    return f"File transfer plugin {plugin.program} exited unexpectedly without producing an error message "


def _not_brought(run: TransferringRun, files: list[tuple[str, str]]) -> str:
    """The first URL that is not there although the plugin says nothing of a failure."""
    scratch = run.assignment.directory.scratch
    with rights_of(run.job.identity):
        return next((url for url, name in files if not (scratch / name).exists()), "")

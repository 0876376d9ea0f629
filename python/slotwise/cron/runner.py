"""Runs cron jobs and reads their output. The edge: processes, time, the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from slotwise.cron.jobs import CronJob, CronRules, Mode
from slotwise.cron.output import Output, Reader
from slotwise.daemon import children, own_programs, tasks
from slotwise.daemon.privileges import as_daemon_account
from slotwise.daemon.spawn import program

_log = logging.getLogger(__name__)

#: How long a job may take to exit before it is killed (seconds).
_PATIENCE_S = 3.0
#: The longest line that is read, and how much of a failed job's standard error is logged (bytes).
_LONGEST_LINE, _LOGGED = 1 << 20, 4096


class CronRunner:
    """All jobs of a family that a daemon runs.

    :param env: the environment of programs, besides that of their family and their own.
    :param said: called with each ad that a job printed.
    :param allowed: whether a job's condition lets it run now.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        said: Callable[[CronJob, Output], None],
        allowed: Callable[[CronJob], bool],
    ) -> None:
        self._env, self._said, self._allowed = env, said, allowed
        self._rules = CronRules()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        #: Jobs that run once, and once more when they have ended: the configuration was read meanwhile.
        self._again: set[str] = set()
        self._load = 0.0
        self._room = asyncio.Condition()

    def follow(self, rules: CronRules) -> None:
        """Run these jobs from now on: start new ones, stop others, restart those that changed."""
        former = {job.name.lower(): job for job in self._rules.jobs}
        self._rules = rules
        jobs = {job.name.lower(): job for job in rules.jobs}
        for key, job in former.items():
            if jobs.get(key) != job:
                self._tasks.pop(key).cancel()
        for key, job in jobs.items():
            if former.get(key) != job:
                self._begin(key, job)
                continue
            if job.hup:
                self._signal(key, signal.SIGHUP)
            if job.rerun and self._tasks[key].done():
                self._begin(key, job)
            elif job.rerun:
                self._again.add(key)

    def _begin(self, key: str, job: CronJob) -> None:
        self._again.discard(key)
        self._tasks[key] = tasks.keep(f"running cron job {job.name}", partial(self._keep, job))

    async def demand(self) -> None:
        """Run the jobs on demand, as many at once as their load permits, until the last has ended."""
        async with asyncio.TaskGroup() as group:
            for job in self._rules.jobs:
                if job.mode is Mode.ON_DEMAND:
                    group.create_task(self._run(job))

    async def stop(self) -> None:
        """End all jobs."""
        ending, self._tasks = list(self._tasks.values()), {}
        await tasks.end(*ending)
        self._rules = replace(self._rules, jobs=())

    # ------------------------------------------------------------------------------------------------------ one job

    async def _keep(self, job: CronJob) -> None:
        if job.mode is Mode.ON_DEMAND:
            return
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            if job.mode is Mode.PERIODIC and job.kill:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(job.period_s):
                        await self._run(job)
            else:
                await self._run(job)
            if job.mode is Mode.ONE_SHOT:
                if (key := job.name.lower()) not in self._again:
                    return
                self._again.discard(key)
                continue
            passed = clock() - began if job.mode is Mode.PERIODIC else 0.0
            if job.kill and passed >= job.period_s:
                continue
            late = passed // job.period_s  # runs that were due during this one are skipped
            await asyncio.sleep((late + 1) * job.period_s - passed)

    async def _run(self, job: CronJob) -> None:
        """Run it once, as soon as its condition and the load of the others permit."""
        if not self._allowed(job):
            return
        async with self._room:
            await self._room.wait_for(lambda: self._load < 1e-9 or self._load + job.load <= self._rules.max_load + 1e-9)
            self._load += job.load
        try:
            await self._run_now(job)
        except OSError as error:
            _log.error("could not start cron job %s: %s", job.name, error)
        except Exception:  # the next run may do better
            _log.exception("error in cron job %s", job.name)
        finally:
            self._load -= job.load
            asyncio.get_running_loop().create_task(self._make_room())

    async def _make_room(self) -> None:
        async with self._room:
            self._room.notify_all()

    async def _run_now(self, job: CronJob) -> None:
        key = job.name.lower()
        words = own_programs.to_run([job.executable, *job.arguments])
        account = as_daemon_account()
        if account:
            words = [*program(account), *program(words, self._env.get("PATH", os.defpath))]
        executable, *arguments = words
        process = await asyncio.create_subprocess_exec(
            job.name if executable == job.executable else executable,
            *arguments,
            executable=executable,
            cwd=job.directory,
            env={**self._env, **self._rules.environment, **job.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        self._running[key] = process
        assert process.stdout is not None and process.stderr is not None
        reader = Reader(job)
        reading = asyncio.gather(self._read(job, reader, process.stdout), _tail(process.stderr))
        try:
            errors = await _to_the_end(process, reading)
            self._take(job, reader.end())
            status = await process.wait()
            if status and self._rules.log_failures:
                _log.error("cron job %s: exit status %d: %s", job.name, status, errors)
        finally:
            self._running.pop(key, None)
            reading.cancel()
            if process.returncode is None:
                await asyncio.shield(children.end_group(process, _PATIENCE_S))
            # Processes that it left running may hold its output open; asyncio has no other way to let go of it.
            process._transport.close()  # type: ignore[attr-defined]

    async def _read(self, job: CronJob, reader: Reader, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                _log.error("cron job %s: a line is too long", job.name)
                continue
            if not line:
                return
            self._take(job, reader.line(line.decode(errors="replace")))

    def _take(self, job: CronJob, ended: Output | None) -> None:
        if ended is not None:
            self._said(job, ended)

    def _signal(self, key: str, number: signal.Signals) -> None:
        process = self._running.get(key)
        if process is not None and process.returncode is None:
            children.signal_group(process.pid, number)


async def _tail(stream: asyncio.StreamReader) -> str:
    """The end of a job's standard error."""
    kept = b""
    while chunk := await stream.read(_LOGGED):
        kept = (kept + chunk)[-_LOGGED:]
    return kept.decode(errors="replace").strip()


async def _to_the_end(process: asyncio.subprocess.Process, reading: asyncio.Future[tuple[None, str]]) -> str:
    """A job's standard error; processes that it left running with its output open do not delay this."""
    while True:
        over = process.returncode is not None
        done, _ = await asyncio.wait({reading}, timeout=_PATIENCE_S)
        if done:
            return reading.result()[1]
        if over:
            return "(unknown: its output is still open in what it left running)"

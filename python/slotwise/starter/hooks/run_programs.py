"""The programs beside the job of one run: hooks and file transfer plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from slotwise.daemon.spawn import program
from slotwise.execution.child_programs import Answer, as_user, call, call_with_jobs_environment, end
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.run_job import RunJob


def _plain(scratch: str) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "_CONDOR_SCRATCH_DIR": scratch}


class ChildPrograms:
    """The programs beside the job of one run: they run as the job's user, in its scratch directory."""

    def __init__(self, directory: RunDirectory, job: RunJob) -> None:
        self._directory = directory
        self._job = job
        self._running = 0

    async def call(
        self,
        words: list[str],
        *,
        env: Mapping[str, str],
        limit_s: float,
        given: bytes = b"",
        jobs_own: Mapping[str, str] | None = None,
    ) -> Answer:
        """As :func:`slotwise.execution.child_programs.call`, for this run.

        :param jobs_own: variables that the job's user has chosen.
        :raises OSError: when the program cannot be started.
        """
        scratch = str(self._directory.scratch)
        self._running += 1
        try:
            if jobs_own:
                return await call_with_jobs_environment(
                    self._job.identity,
                    program(words),
                    self._directory.control,
                    cwd=scratch,
                    env={**_plain(scratch), **env, **jobs_own},
                    limit_s=limit_s,
                )
            return await call(
                [*as_user(self._job.identity), *program(words)],
                self._directory.control,
                cwd=scratch,
                env={**_plain(scratch), **env},
                limit_s=limit_s,
                given=given,
            )
        finally:
            self._running -= 1

    def end(self) -> None:
        """End those that run, in the background: a run that is killed does not wait for its hooks and transfers."""
        if self._running:
            asyncio.get_running_loop().run_in_executor(None, end, self._directory.control)

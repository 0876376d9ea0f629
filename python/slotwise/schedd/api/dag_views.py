"""Shows DAGs: what their nodes are doing, as `slotwise dag graph` has it.

What a DAG consists of is in files of its owner: a program reads them that runs with the owner's rights, as the DAG's
runner does. Only the owner is shown it, and queue superusers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import BusyError, DeniedError, HostError, NotFoundError, UsageError
from slotwise.execution import child_programs, dagman
from slotwise.execution.keeper_spec import Identity
from slotwise.model.job_id import JobId
from slotwise.model.ownership import LocalDomains, same_user
from slotwise.schedd.history.query import History, HistoryQuery
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.selection import JobSelection
from slotwise.schedd.local.identity import identity_of
from slotwise.table import unpack_ads
from slotwise.wire.token import Identity as Caller

#: Programs at a time, how long each may take, and how long a caller waits for one to begin, seconds.
_AT_ONCE, _LIMIT_S, _WAIT_S = 2, 60.0, 20.0
#: How long a view is shown to further callers: at least so many seconds, and so many times as long as it took.
_KEPT_S, _KEPT_TIMES = 1.0, 4.0
#: Boxes beside each other, and rows: what fits a screen.
_WIDEST, _DEEPEST = 16, 80
#: Variables of the schedd's environment that say which pool the program belongs to.
_POOL = ("CONDOR_CONFIG", "SLOTWISE_HOME", "PATH", "LANG", "TZ")
_NAMES = ("User", "Cmd", "Iwd")


class _Dag(Struct, frozen=True):
    """A DAG's job. ``account``: of its owner here, "" for none."""

    cluster: int
    user: str
    account: str
    directory: str


class _View(Struct):
    """A view that is being made, or was. ``until``: it is shown until then, on the monotonic clock."""

    task: asyncio.Task[bytes]
    until: float


class DagViews:
    """Makes views of DAGs, one for all who ask at about the same time.

    :param domains: those whose users have accounts here.
    :param home: the pool's state directory.
    :param least_uid: SLOTWISE_MIN_UID.
    """

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        history: History,
        questions: Questions,
        clock: Clock,
        domains: Callable[[], LocalDomains],
        *,
        home: Path,
        least_uid: int,
    ) -> None:
        self._queue, self._ads, self._history, self._questions = queue, ads, history, questions
        self._clock = clock
        self._domains = domains
        self._home, self._least_uid = home, least_uid
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._views: dict[int, _View] = {}

    async def show(self, caller: Caller, job_id: str, superuser: bool) -> bytes:
        """The view of the DAG that a job runs, as JSON.

        :raises NotFoundError: there is no such job.
        :raises UsageError: it runs no DAG.
        :raises DeniedError: it is another user's.
        :raises HostError: the DAG's files cannot be read.
        :raises BusyError: too many others want one.
        """
        dag = await self._dag(job_id)
        if not (superuser or same_user(dag.user, caller.name)):
            raise DeniedError(f"the files of DAG {dag.cluster} are its user's")
        now = self._clock.monotonic()
        self._views = {key: view for key, view in self._views.items() if not view.task.done() or view.until > now}
        view = self._views.get(dag.cluster)
        if view is None:
            view = self._views[dag.cluster] = _View(asyncio.ensure_future(self._made(dag)), 0.0)
            view.task.add_done_callback(partial(self._made_at, view, now))
        return await asyncio.shield(view.task)

    def _made_at(self, view: _View, began: float, task: asyncio.Task[bytes]) -> None:
        now = self._clock.monotonic()
        view.until = now + max(_KEPT_S, _KEPT_TIMES * (now - began))
        if not task.cancelled():
            task.exception()  # whoever asked has it; nobody may have waited

    async def _dag(self, job_id: str) -> _Dag:
        cluster, proc = JobId.parse(job_id)
        found = self._queue.clusters.get(cluster)
        job = found.jobs.get(proc or 0) if found is not None else None
        if job is not None and self._ads.has(job):
            command: object = self._ads.value(job, "Cmd")
            directory = self._ads.value(job, "Iwd")
            dag = _Dag(cluster, job.cluster.user, job.account, str(directory))
        else:
            query = HistoryQuery(JobSelection(ids=(f"{cluster}.{proc or 0}",)), projection=_NAMES, limit=1)
            await self._history.settled()
            ads = [ad async for piece, _ in self._history.answer(self._questions, query) for ad in unpack_ads(piece)]
            if not ads:
                raise NotFoundError(f"there is no job {job_id}, nor was there one of late")
            ad = ads[0]
            command = ad.get("Cmd")
            user = str(ad.get("User", ""))
            dag = _Dag(cluster, user, self._domains().account_of(user), str(ad.get("Iwd", "/")))
        if not dagman.runs_dags(command):
            raise UsageError(f"job {job_id} runs no DAG")
        return dag

    async def _made(self, dag: _Dag) -> bytes:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._turn.acquire()
        except TimeoutError:
            raise BusyError("other DAGs are being looked at", hint="ask again in a moment") from None
        try:
            return await self._read(dag)
        finally:
            self._turn.release()

    async def _read(self, dag: _Dag) -> bytes:
        try:
            identity = await asyncio.to_thread(identity_of, dag.user, dag.account, self._least_uid)
            answer = await child_programs.call(
                [*child_programs.as_user(identity), *_words(dag.cluster)],
                Path(f"/dag/{dag.cluster}"),
                cwd=dag.directory,
                env=self._environment(identity),
                limit_s=_LIMIT_S,
            )
        except OSError as error:
            raise HostError(f"the files of DAG {dag.cluster} cannot be read: {error.strerror}") from None
        if answer.status:
            why = answer.errors.strip().splitlines()
            text = why[-1].removeprefix("slotwise dag: ") if why else f"it ended with status {answer.status}"
            raise HostError(f"DAG {dag.cluster} cannot be shown: {text[:500]}")
        return answer.output.encode()

    def _environment(self, identity: Identity) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in _POOL if name in os.environ}
        return {**kept, "SLOTWISE_HOME": str(self._home), **({"HOME": identity.home} if identity.home else {})}


def _words(cluster: int) -> list[str]:
    graph = ["dag", "graph", "--json", "--widest", str(_WIDEST), "--deepest", str(_DEEPEST), str(cluster)]
    return [sys.executable, "-sP", "-m", "slotwise", *graph]

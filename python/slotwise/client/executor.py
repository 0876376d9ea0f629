"""Python calls as jobs: an executor as those of ``concurrent.futures``."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeAlias, TypeVar, cast

from slotwise.classad import ClassAd
from slotwise.client import call_in_job
from slotwise.client.event_log import EventLog
from slotwise.client.schedd import Schedd
from slotwise.errors import SlotwiseError, UsageError

T = TypeVar("T")
P = ParamSpec("P")
#: Arguments of a call: those without and those with names.
_Arguments: TypeAlias = tuple[Sequence[object], Mapping[str, object]]
#: Numbers of events in a job's log.
_EXECUTE, _TERMINATED, _ABORTED, _HELD = 1, 5, 9, 12
#: How long the reader of the log waits before it looks whether it is to end, in seconds.
_LOOK_S = 0.5
#: As much of what a job wrote to its standard error is in the message that it failed.
_TAIL = 2000


class JobFailedError(SlotwiseError):
    """A job ended without a result: it was held or removed, killed by a signal, or its Python could not start."""

    code = "job_failed"


class _RemoteTraceError(Exception):
    """Shown as the cause of an exception of a job: where it was raised there."""

    def __init__(self, trace: str) -> None:
        super().__init__(f'\n"""\n{trace}"""')


class JobFuture(Future[T]):
    """The result of a call that runs as a job.

    :param job_id: the job, ``CLUSTER.PROC``.
    """

    def __init__(self, job_id: str, place: Path, remove: Callable[[str], None]) -> None:
        super().__init__()
        self.job_id = job_id
        #: Where its files are, without their endings.
        self.place = place
        self._remove = remove

    def cancel(self) -> bool:
        """Remove the job if it has not started yet; whether it is removed."""
        if self.cancelled():
            return True
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()  # those who wait for it are told
        self._remove(self.job_id)
        return True

    def started(self) -> None:
        """The job runs, perhaps not for the first time."""
        if not self.running() and not self.done():
            self.set_running_or_notify_cancel()


class JobExecutor(Executor):
    """Runs Python calls as jobs of the pool.

    >>> with JobExecutor({"request_memory": "200M", "request_disk": "10M"}) as jobs:
    ...     print(list(jobs.map(pow, range(10), itertools.repeat(2))))

    A call travels pickled, by cloudpickle where it is installed: without it functions must be in a module that the job
    can import. Modules are looked for in this process's ``sys.path`` too, where the job sees these files. Results are
    unpickled here: they come from the caller's own jobs.

    :param description: commands of the submit description for all jobs: what they ask for, further files.
    :param schedd: where jobs are queued; its host must see ``directory``.
    :param directory: for calls, results and the event log; if none is named, a temporary one below the current one.
    :param python: the Python that runs calls where the jobs run, by its path there: of this version, since pickles of
        functions are not read by others.
    :param through_holds: whether calls whose jobs are held wait for their release; they fail otherwise, and the jobs
        are removed.
    """

    def __init__(
        self,
        description: Mapping[str, object] | None = None,
        *,
        schedd: Schedd | None = None,
        directory: str | Path | None = None,
        python: str = sys.executable,
        through_holds: bool = False,
    ) -> None:
        self._description = dict(description or {})
        self._own = schedd is None
        self._schedd = schedd or Schedd()
        self._is_temporary = directory is None
        self._directory = Path(
            tempfile.mkdtemp(prefix="slotwise-calls-", dir=".") if directory is None else directory
        ).absolute()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._python = python
        self._through_holds = through_holds
        self._log = Path(tempfile.mkstemp(prefix="calls-", suffix=".log", dir=self._directory)[1])
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        #: Jobs that have not ended, and what makes their results from those of their calls.
        self._open: dict[str, tuple[JobFuture[object], Callable[[list[object]], object]]] = {}
        self._is_shut = False
        self._ended = threading.Condition(self._lock)
        self._reader = threading.Thread(target=self._read, name="slotwise-executor", daemon=True)
        self._reader.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> JobFuture[T]:
        """Queue one call as a job; its result.

        :raises UsageError: the call cannot be pickled.
        :raises SubmitError: the description is wrong.
        """
        (job,) = self._queue(fn, [[(args, kwargs)]], of=lambda results: results[0])
        return cast("JobFuture[T]", job)

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[object], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """The results in order; ``chunksize`` calls run in each job, and all jobs are one cluster."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        calls: list[_Arguments] = [(args, {}) for args in zip(*iterables, strict=False)]
        chunks = [calls[at : at + chunksize] for at in range(0, len(calls), chunksize)]
        jobs = cast("list[JobFuture[list[T]]]", self._queue(fn, chunks, of=lambda results: results))

        def results() -> Iterator[T]:
            try:
                for job in jobs:
                    yield from job.result(timeout)
            finally:
                for job in jobs:
                    job.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``wait`` for those that go on, and then remove the files of a temporary directory."""
        with self._lock:
            self._is_shut = True
            waiting = [job for job, _ in self._open.values()]
        if cancel_futures:
            for job in waiting:
                job.cancel()
        if not wait:
            return
        with self._ended:
            while self._open:
                self._ended.wait()
        self._reader.join()

    def _queue(
        self,
        function: Callable[..., object],
        calls: Sequence[Sequence[_Arguments]],
        of: Callable[[list[object]], object],
    ) -> list[JobFuture[object]]:
        """A cluster with a job for each of ``calls``; ``of`` makes a job's result from those of its calls."""
        if not calls:
            return []
        number = next(self._numbers)
        texts = [_pickled(function, each) for each in calls]
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            for place, text in enumerate(texts):
                (self._directory / f"{number}.{place}.call").write_bytes(text)
            # No event of these jobs is looked up before they are in the table.
            submitted = self._schedd.submit(self._of_calls(number), count=len(calls))
            jobs: list[JobFuture[object]] = [
                JobFuture(f"{submitted.cluster}.{place}", self._directory / f"{number}.{place}", self._remove)
                for place in range(len(calls))
            ]
            self._open.update((job.job_id, (job, of)) for job in jobs)
            return jobs

    def _of_calls(self, number: int) -> dict[str, object]:
        name = f"{number}.$(ProcId)"
        more = [str(self._description[key]) for key in self._description if key.lower() == "transfer_input_files"]
        files = [call_in_job.__file__, f"{self._directory}/{name}.call", *more]
        given = {key: value for key, value in self._description.items() if key.lower() != "transfer_input_files"}
        return {
            **given,
            "executable": self._python,
            "transfer_executable": False,
            "arguments": f"{Path(call_in_job.__file__).name} {name}.call {name}.result",
            "should_transfer_files": "YES",
            "transfer_input_files": ", ".join(files),
            "transfer_output_files": f"{name}.result",
            "initialdir": str(self._directory),
            "error": f"{name}.err",
            "log": str(self._log),
        }

    def _remove(self, job_id: str) -> None:
        with contextlib.suppress(SlotwiseError):  # it has ended, or the schedd is away: its result is not wanted
            self._schedd.act("remove", [job_id], reason="the call was cancelled")
        with self._ended:
            self._open.pop(job_id, None)
            self._ended.notify_all()

    def _read(self) -> None:
        """Follow the event log until the executor is shut and no job is left."""
        with EventLog(self._log) as log:
            while not self._is_over():
                try:
                    found = log.next(_LOOK_S)
                except SlotwiseError:
                    continue  # an entry that is none
                if found is not None:
                    entry, ad = found
                    self._take(f"{entry.cluster}.{entry.proc}", ad)
        if self._is_temporary:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._own:
            self._schedd.close()

    def _is_over(self) -> bool:
        with self._lock:
            return self._is_shut and not self._open

    def _take(self, job_id: str, ad: ClassAd) -> None:
        with self._lock:
            found = self._open.get(job_id)
        if found is None:
            return
        job, of = found
        kind = ad.get("EventTypeNumber")
        if kind == _EXECUTE:
            job.started()
        elif kind == _TERMINATED:
            self._end(job, of, _ending(ad))
        elif kind == _ABORTED:
            self._end(job, of, f"it was removed ({ad.get('Reason', 'no reason is given')})")
        elif kind == _HELD and not self._through_holds:
            self._end(job, of, f"it was held: {ad.get('HoldReason', 'no reason is given')}")
            self._remove(job_id)

    def _end(self, job: JobFuture[object], of: Callable[[list[object]], object], how: str) -> None:
        """Tell the caller of a job that has ended."""
        job.started()
        if not job.cancelled():
            try:
                result = of(_outcome(job, how))
            except BaseException as error:  # whatever the call has raised
                job.set_exception(error)
            else:
                job.set_result(result)
        with contextlib.suppress(OSError):
            Path(f"{job.place}.call").unlink()
        with self._ended:
            self._open.pop(job.job_id, None)
            self._ended.notify_all()


def _pickled(function: Callable[..., object], calls: Sequence[_Arguments]) -> bytes:
    pickler: ModuleType = pickle
    try:
        pickler = import_module("cloudpickle")
    except ImportError:
        if getattr(function, "__module__", None) == "__main__":
            raise UsageError(
                "a job cannot import a function of a script or notebook",
                hint="pip install cloudpickle here and where jobs run, or put it into a module",
            ) from None
    try:
        packed = pickler.dumps((function, list(calls)))
    except Exception as error:
        raise UsageError(f"the call cannot be pickled: {error}", hint="pip install cloudpickle") from None
    return pickle.dumps((sys.path, packed))


def _outcome(job: JobFuture[object], how: str) -> list[object]:
    """What the file of a result says; ``how`` its job has ended.

    :raises JobFailedError: there is none, or it cannot be read.
    """
    result = Path(f"{job.place}.result")
    if not result.exists() or not result.stat().st_size:
        raise JobFailedError(f"job {job.job_id} has no result: {how}{_tail(job.place)}")
    try:
        kind, value = pickle.loads(result.read_bytes())
    except Exception as error:
        raise JobFailedError(f"the result of job {job.job_id} cannot be read: {error}") from error
    if kind == "results":
        results: list[object] = value
        return results
    raised, trace = value
    found: BaseException = RuntimeError(raised) if kind == "text" else raised
    found.__cause__ = _RemoteTraceError(trace)
    raise found


def _ending(ad: ClassAd) -> str:
    if ad.get("TerminatedNormally") is True:
        return f"it ended with status {ad.get('ReturnValue')}"
    return f"it was killed by signal {ad.get('TerminatedBySignal')}"


def _tail(path: Path) -> str:
    """The end of what a job wrote to its standard error, in a message."""
    try:
        text = Path(f"{path}.err").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f"; it wrote: {text[-_TAIL:]}" if text else ""

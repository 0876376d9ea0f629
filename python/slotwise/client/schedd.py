"""The schedd: its queue, submissions to it, its users; blocking and for asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Unpack

import grpc

from slotwise.classad import ExprTree, Value
from slotwise.client import convert, past, spool, waiting
from slotwise.client.ad_list import AdList
from slotwise.client.call import TIMEOUT_S, Call, JsonPage, ads, ads_of, nothing, page, text
from slotwise.client.cluster_ids import ReservedIds
from slotwise.client.convert import ActResult, Credentials, Jobs, Sending, SubmitResult
from slotwise.client.daemon import AsyncClient, BlockingClient, Client, Where, calls
from slotwise.client.descriptions import USUAL, Description, DescriptionReader, ReadOptions
from slotwise.client.request_streams import stated
from slotwise.client.retry import Keys, RetryPolicy
from slotwise.client.spool import Tell
from slotwise.client.streams import AsyncStream, BlockingStream
from slotwise.client.totals import QueueTotals
from slotwise.client.waiting import Progress
from slotwise.errors import BusyError, NotFoundError, SlotwiseError, UsageError
from slotwise.submit import Submission
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

#: The most submissions that wait for their replies in ``submit_many``.
_AHEAD = 256
#: How long one of them waits for others to share its frame, in seconds.
_GATHER_S = 0.002
#: How long the files of a DAG may take to be read, in seconds.
_DAG_S = 90.0
#: Bytes of a file's end that are fetched at most.
_TAIL_MOST = 1024 * 1024


class Keyed(NamedTuple):
    """One of several submissions. ``again``: it may have been sent before, with the same key."""

    description: Description
    options: ReadOptions
    key: bytes
    again: bool = False


OutputFile = Literal["stdout", "stderr"]


class ScheddCalls(Client):
    """The calls of a schedd, and what both clients keep for submissions.

    :param patience_s: how long submissions wait for a schedd that went away; none of them is queued twice.

    The other parameters are those of :class:`~slotwise.client.daemon.Client`.
    """

    daemon = "schedd"
    stub_class = schedd_pb2_grpc.ScheddStub

    def __init__(self, home: str | Path | None = None, *, patience_s: float = 30.0, **where: Unpack[Where]) -> None:
        super().__init__(home, **where)
        self._reader = DescriptionReader(self._at.pool.home, self._at.pool.env, self._at.pool.account)
        self._ids = ReservedIds()
        self._keys = Keys()
        self._patience = RetryPolicy(patience_s)

    @calls
    def query(
        self,
        constraint: str = "",
        projection: Sequence[str] = (),
        *,
        limit: int = 0,
        mine: bool = False,
        ids: Sequence[str] = (),
    ) -> Call[AdList]:
        """Jobs in the queue for which ``constraint`` is true; with ``ids``, of these jobs and clusters."""
        query = convert.job_query(constraint, projection, limit, mine)
        query.jobs.ids.extend(ids)
        return ads("Query", query)

    @calls
    def query_json(self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0) -> Call[bytes]:
        """As :meth:`query`, as one JSON array."""
        query = convert.job_query(constraint, projection, limit)
        query.query.form = common_pb2.AdQuery.JSON
        return text("Query", query)

    @calls
    def page_json(
        self,
        constraint: str = "",
        projection: Sequence[str] = (),
        *,
        limit: int,
        order_by: str = "",
        descending: bool = False,
        after: str = "",
        mine: bool = False,
    ) -> Call[JsonPage]:
        """The first ``limit`` jobs (up to 9,999) in the order of an attribute, or of their ids, behind ``after``."""
        query = convert.job_query(constraint, projection, limit, mine)
        query.query.form = common_pb2.AdQuery.JSON
        query.page.CopyFrom(common_pb2.Page(order_by=order_by, descending=descending, after=after))
        return page("Query", query)

    @calls
    def count_by(self, attributes: Sequence[str], constraint: str = "", *, mine: bool = False) -> Call[AdList]:
        """Numbers of jobs by the values of attributes: these and ``Count`` for each combination that there is."""
        query = convert.job_query(constraint, (), mine=mine)
        query.query.form = common_pb2.AdQuery.COUNT
        query.query.count_by.extend(attributes)
        return ads("Query", query)

    @calls
    def job_sets(self, constraint: str = "") -> Call[AdList]:
        """The ads of job sets with jobs in the queue for which ``constraint`` is true."""
        request = convert.job_query(constraint, (), view="jobset")
        return Call("Query", request, lambda pieces: ads_of(pieces[:-1]), many=True, timeout_s=None)

    @calls
    def cluster_ads(self, constraint: str = "", *, mine: bool = False) -> Call[AdList]:
        """The ads of clusters with jobs in the queue for which ``constraint`` is true; see HTCondor's
        ``QueryOpt.IncludeClusterAd``."""
        request = convert.job_query(constraint, (), mine=mine, view="cluster")
        return Call("Query", request, lambda pieces: ads_of(pieces[:-1]), many=True, timeout_s=None)

    @calls
    def totals(self, constraint: str = "", *, mine: bool = False) -> Call[QueueTotals]:
        """The numbers of jobs for which ``constraint`` is true, of the caller's, and of everybody's, by state."""
        request = convert.job_query(constraint, (), mine=mine, totals=True)
        return Call("Query", request, lambda pieces: QueueTotals.parse(pieces[-1].data), many=True, timeout_s=None)

    @calls
    def show_dag(self, job: str) -> Call[bytes]:
        """A DAG of the caller's, by the id of its job, as JSON: boxes of nodes in rows, with their states, and what is
        between them."""
        return Call("ShowDag", schedd_pb2.ShowDagRequest(job=job), lambda reply: reply.json, timeout_s=_DAG_S)

    @calls
    def history(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, since: str = ""
    ) -> Call[AdList]:
        """Jobs that have left the queue, newest first, until ``since`` (a job, a cluster or an expression)."""
        return ads("History", convert.history_query(constraint, projection, limit, since))

    @calls
    def history_json(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, since: str = ""
    ) -> Call[bytes]:
        """As :meth:`history`, as one JSON array."""
        query = convert.history_query(constraint, projection, limit, since)
        query.query.form = common_pb2.AdQuery.JSON
        return text("History", query)

    @calls
    def history_page_json(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int, after: str = ""
    ) -> Call[JsonPage]:
        """The newest ``limit`` jobs (up to 9,999) of those that have left the queue, behind ``after``."""
        query = convert.history_query(constraint, projection, limit, "")
        query.query.form = common_pb2.AdQuery.JSON
        query.page.CopyFrom(common_pb2.Page(after=after))
        return page("History", query)

    @calls
    def runs(
        self,
        constraint: str = "",
        projection: Sequence[str] = (),
        *,
        kinds: Sequence[str] = ("EPOCH",),
        limit: int = 0,
        since: str = "",
    ) -> Call[AdList]:
        """Records of runs and their transfers (JOB_EPOCH_HISTORY) of these kinds, newest first; none: of all kinds."""
        return ads("History", convert.history_query(constraint, projection, limit, since, kinds))

    @calls
    def daemon_history(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, since: str = ""
    ) -> Call[AdList]:
        """Records of this schedd's own ad (SCHEDD_DAEMON_HISTORY), newest first, until the expression ``since``.
        Needs ADMINISTRATOR.

        :raises NotFoundError: the schedd keeps none.
        """
        return past.history("SCHEDD_DAEMON_HISTORY", constraint, projection, limit, since)

    @calls
    def users(self, constraint: str = "", projection: Sequence[str] = ()) -> Call[AdList]:
        """The records of the access point's users."""
        return ads("Users", convert.users_query(constraint, projection))

    @calls
    def act(self, action: str, jobs: Jobs, *, reason: str = "", subcode: int = 0) -> Call[ActResult]:
        """``remove``, ``remove_force``, ``hold``, ``release``, ``suspend``, ``continue``, ``vacate`` or ``vacate_fast``
        jobs: a constraint, or ids."""
        return Call("Act", convert.act(action, jobs, reason, subcode), convert.acted, timeout_s=None)

    @calls
    def edit(self, jobs: Jobs, attributes: Mapping[str, Value]) -> Call[ActResult]:
        """Set attributes of jobs to values or expressions (:class:`~slotwise.classad.ExprTree`)."""
        return Call("Edit", convert.edit(jobs, attributes), convert.acted, timeout_s=None)

    @calls
    def edit_users(
        self,
        change: str,
        users: Iterable[str] | ExprTree,
        *,
        reason: str = "",
        attributes: Mapping[str, Value] | None = None,
    ) -> Call[int]:
        """``add``, ``enable``, ``disable``, ``edit`` or ``remove`` records of users (names, or a constraint); returns
        how many were changed."""
        request = convert.users_edit(change, users, reason, attributes or {})
        return Call("EditUsers", request, lambda reply: int(reply.changed))

    @calls
    def store_credential(
        self,
        service: str,
        content: bytes,
        *,
        handle: str = "",
        user: str = "",
        refreshed: bool | None = None,
        scopes: str = "",
        audience: str = "",
    ) -> Call[Credentials]:
        """Store a credential for jobs that name its service in use_oauth_services.

        :param user: whose it is; "" for the caller.
        :param refreshed: tokens are made with it; False: it is the token; None: that follows from the service.
        """
        asked = schedd_pb2.CredentialQuery(service=service, handle=handle, user=user, scopes=scopes, audience=audience)
        request = schedd_pb2.CredentialStoring(credential=asked, content=content, refreshed=refreshed)
        return Call("StoreCredential", request, Credentials.of)

    @calls
    def credentials(
        self, service: str = "", *, handle: str = "", user: str = "", scopes: str = "", audience: str = ""
    ) -> Call[Credentials]:
        """Which credentials are stored: of one service, or all."""
        request = schedd_pb2.CredentialQuery(
            service=service, handle=handle, user=user, scopes=scopes, audience=audience
        )
        return Call("QueryCredentials", request, Credentials.of)

    @calls
    def delete_credential(self, service: str = "", *, handle: str = "", user: str = "") -> Call[None]:
        """Remove a credential, or all where no service is named."""
        request = schedd_pb2.CredentialQuery(service=service, handle=handle, user=user)
        return Call("DeleteCredential", request, nothing)

    @calls
    def fetch_credential(self, service: str, *, handle: str = "") -> Call[bytes]:
        """The token that jobs of the caller get."""
        request = schedd_pb2.CredentialQuery(service=service, handle=handle)
        return Call("FetchCredential", request, lambda reply: bytes(reply.content))

    @calls
    def check_credentials(self, needed: str = "", requests: str = "") -> Call[None]:
        """See that the tokens are there that jobs need (OAuthServicesNeeded and OAuthRequests of their ads), and have
        those made that the access point signs itself."""
        return Call("CheckCredentials", schedd_pb2.CredentialCheck(needed=needed, requests=requests), nothing)


def _outgoing(submitted: SubmitResult, progress: Tell | None) -> spool.Outgoing:
    if submitted.submission is None:
        raise UsageError("these jobs were submitted elsewhere", hint="give the result of Schedd.submit")
    firsts = zip(submitted.clusters, submitted.first_procs, strict=True)
    return spool.Outgoing(spool.spooled_jobs(submitted.submission, firsts), progress)


def _check_files(submission: Submission) -> None:
    spool.check(ad for cluster in submission.clusters for ad in map(cluster.job, range(cluster.count)))


class Schedd(ScheddCalls, BlockingClient):
    """An access point's schedd: this host's, or that of another pool or name.

    The parameters are those of :class:`ScheddCalls`.
    """

    def __init__(self, home: str | Path | None = None, *, patience_s: float = 30.0, **where: Unpack[Where]) -> None:
        super().__init__(home, patience_s=patience_s, **where)
        self._local = threading.local()
        self._streams: weakref.WeakSet[BlockingStream] = weakref.WeakSet()

    def close(self) -> None:
        """Close the connection."""
        for stream in list(self._streams):
            stream.close()
        super().close()

    def submit(
        self,
        description: Description,
        count: int | None = None,
        options: ReadOptions = USUAL,
        *,
        key: bytes = b"",
        again: bool = False,
    ) -> SubmitResult:
        """Queue the jobs of a submit description (its text, or its statements as a mapping); all of them or none.

        ``count`` replaces the description's queue statement. Durable when it returns. With
        ``ReadOptions(spool=True)`` the jobs are held until :meth:`spool` has sent their files.

        :param key: tells this submission from all others of the caller, for half an hour; by default a new one.
        :param again: it may have been sent before, with the same key, by a process that is gone: what was queued then
            is not queued a second time, and the answer is that of then.
        :raises SubmitError: the description makes no jobs, is wrong, or names files to spool that cannot be read.
        """
        submission, first = self._read(description, count, options)
        if options.spool and not options.elsewhere:
            _check_files(submission)
        return self._submit(submission, Sending(key or self._keys.next(), first, spool=options.spool, again=again))

    def submit_each(self, asked: Sequence[Keyed]) -> list[SubmitResult | SlotwiseError]:
        """Queue submissions, each accepted or refused on its own: the result of each, or why there is none.

        Those that are small travel in one message, and are durable together. Keys: as of :meth:`submit`.
        """
        answers: dict[int, SubmitResult | SlotwiseError] = {}
        small: list[tuple[int, Submission, schedd_pb2.SubmitBundle]] = []
        for place, one in enumerate(asked):
            try:
                submission, first = self._read(one.description, None, one.options)
                how = Sending(one.key or self._keys.next(), first, again=one.again)
                if (bundle := convert.small_bundle(submission, how)) is not None:
                    small.append((place, submission, bundle))
                else:
                    answers[place] = self._submit(submission, how)
            except SlotwiseError as error:
                answers[place] = error
        replies = self._own_stream().exchange([bundle for _, _, bundle in small]) if small else []
        for (place, submission, _), reply in zip(small, replies, strict=True):
            answers[place] = reply if isinstance(reply, SlotwiseError) else convert.result(reply, submission)
        return [answers[place] for place in range(len(asked))]

    def submit_many(self, descriptions: Iterable[Description]) -> Iterator[SubmitResult]:
        """Queue submissions, each accepted or refused on its own; results in the order of the descriptions.

        Several are under way at once: results arrive while later descriptions are read. The first refusal is raised in
        its place; of the submissions behind it some may be queued already. Cluster ids mostly ascend, but not always:
        descriptions that name their cluster, and those sent again after a break, may get lower or higher ones.
        """
        stream = BlockingStream(self._stub, self._at.metadata, self._patience, gather_s=_GATHER_S)
        waiting: deque[Submission] = deque()
        try:
            for description in descriptions:
                submission, first = self._read(description, None)
                how = Sending(self._keys.next(), first)
                bundle = convert.small_bundle(submission, how)
                if bundle is None:
                    while waiting:
                        yield convert.result(stream.answer(), waiting.popleft())
                    yield self._submit(submission, how)
                    continue
                stream.send(bundle)
                waiting.append(submission)
                if len(waiting) >= _AHEAD:
                    yield convert.result(stream.answer(), waiting.popleft())
            while waiting:
                yield convert.result(stream.answer(), waiting.popleft())
        finally:
            stream.close()

    def _read(
        self, description: Description, count: int | None, options: ReadOptions = USUAL
    ) -> tuple[Submission, int]:
        """The submission, and its first cluster id when its text needs that before it is sent, else 0."""
        candidate = self._ids.likely()
        submission = self._reader.read(description, count, candidate, options)
        if not submission.mentions_cluster:
            return submission, 0
        first = self._ids.take(len(submission.clusters), self._reserve)
        if first != candidate:
            submission = self._reader.read(description, count, first, options)
        return submission, first

    def _reserve(self, count: int) -> int:
        asked = schedd_pb2.ReserveClustersRequest(count=count)
        reply = self._patience.call(lambda again: self._stub.ReserveClusters(asked, metadata=self._at.metadata()))
        return int(reply.first)

    def _submit(self, submission: Submission, how: Sending) -> SubmitResult:
        if (bundle := convert.small_bundle(submission, how)) is not None:
            stream = self._own_stream()
            stream.send(bundle)
            return convert.result(stream.answer(), submission)

        def send(again: bool) -> schedd_pb2.SubmitReply:
            parts = convert.parts(submission, how, again or how.again)
            reply: schedd_pb2.SubmitReply = self._stub.Submit(parts, metadata=self._at.metadata())
            return reply

        return convert.result(self._patience.call(send), submission)

    def _own_stream(self) -> BlockingStream:
        """This thread's stream of submissions."""
        stream: BlockingStream | None = getattr(self._local, "stream", None)
        if stream is None:
            stream = self._local.stream = BlockingStream(self._stub, self._at.metadata, self._patience)
            self._streams.add(stream)
        return stream

    def wait(
        self,
        jobs: Jobs | SubmitResult,
        projection: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
        through_holds: bool = False,
    ) -> AdList:
        """Wait until jobs have ended; returns their ads, those removed included, newest first.

        ``jobs``: what :meth:`submit` returned, ids, or a constraint. ``through_holds``: go on waiting when all that
        are left are held, for policy or people to release them.

        :raises BusyError: all jobs that are left are held (unless ``through_holds``); it names one and its reason.
        :raises TimeoutError: some have not ended within ``timeout_s``.
        """
        constraint = waiting.constraint_of(jobs)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        asked = 0
        while not (seen := Progress.of_counts(self.count_by(["JobStatus"], constraint))).is_over:
            if seen.is_stuck and not through_holds:
                raise waiting.held_error(self.query(*waiting.held_among(constraint), limit=1), seen.held)
            asked += 1
            time.sleep(seen.pause_s(asked, None if deadline is None else deadline - time.monotonic()))
        wanted = waiting.with_ids(projection)
        return waiting.each_once(self.query(constraint, wanted), self.history(constraint, wanted))

    def spool(self, submitted: SubmitResult, progress: Tell | None = None) -> None:
        """Send the input files of jobs that were submitted with ``ReadOptions(spool=True)``, which releases them.

        ``progress`` is told of each piece, in another thread.

        :raises SubmitError: names a file that cannot be read.
        :raises UsageError: ``submitted`` comes from elsewhere.
        """
        outgoing = _outgoing(submitted, progress)
        try:
            self._perform(Call("Spool", iter(outgoing), nothing, timeout_s=None))
        finally:
            if outgoing.error is not None:
                raise outgoing.error

    def retrieve(self, jobs: Jobs, directory: str | Path | None = None, progress: Tell | None = None) -> int:
        """Fetch the output of spooled jobs to where they were submitted, or into ``directory``; how many files.

        ``progress`` is told of each piece.

        :raises SubmitError: a file cannot be written.
        """
        arrivals: dict[str, spool.Arrivals] = {}
        meter = spool.Meter(progress)
        try:
            for piece in self._stub.FetchSandboxes(convert.selection(jobs), metadata=self._at.metadata()):
                spool.arrive(piece, arrivals, Path(directory) if directory is not None else None)
                if not piece.ad:
                    meter.count(piece.file)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None
        return sum(each.count for each in arrivals.values())


class AsyncSchedd(ScheddCalls, AsyncClient):
    """As :class:`Schedd`, in coroutines. Make it inside a running event loop."""

    def __init__(self, home: str | Path | None = None, *, patience_s: float = 30.0, **where: Unpack[Where]) -> None:
        super().__init__(home, patience_s=patience_s, **where)
        self._stream = AsyncStream(self._stub, self._at.metadata, self._patience)

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.close()
        await super().close()

    def query_pieces(
        self, constraint: str, projection: Sequence[str], limit: int, *, ids: Sequence[str] = ()
    ) -> AsyncIterator[bytes]:
        """As :meth:`ScheddCalls.query_json`, in pieces as they come; with ``ids``, of these jobs and clusters."""
        query = convert.job_query(constraint, projection, limit)
        query.jobs.ids.extend(ids)
        query.query.form = common_pb2.AdQuery.JSON
        return self._pieces(text("Query", query))

    def history_pieces(
        self, constraint: str, projection: Sequence[str], limit: int, since: str, kinds: Sequence[str] | None = None
    ) -> AsyncIterator[bytes]:
        """As :meth:`ScheddCalls.history_json`, in pieces as they come; with ``kinds``, of records of runs."""
        query = convert.history_query(constraint, projection, limit, since, kinds)
        query.query.form = common_pb2.AdQuery.JSON
        return self._pieces(text("History", query))

    def read(self, description: Description, count: int | None, options: ReadOptions = USUAL) -> Submission:
        """What :meth:`submit` would queue.

        :raises SubmitError: it would queue nothing.
        """
        return self._reader.read(description, count, options=options)

    async def tail(self, job: str, file: OutputFile = "stdout", most: int = 64 * 1024) -> bytes:
        """The end of a running job's standard output or error, ``most`` bytes of it, at most a megabyte.

        :raises BusyError: when the job does not run.
        """
        which = schedd_pb2.PeekFile.OUTPUT if file == "stdout" else schedd_pb2.PeekFile.ERROR
        peek = schedd_pb2.Peek(files=[schedd_pb2.PeekFile(which=which, offset=-1)], max_bytes=min(most, _TAIL_MOST))
        visit = self._stub.Visit(metadata=self._at.metadata(), timeout=TIMEOUT_S)
        try:
            await visit.write(schedd_pb2.JobVisit(job=job, peek=peek))
            async for answer in visit:
                if answer.WhichOneof("what") == "end":
                    raise BusyError(answer.end.error or f"job {job} has ended")
                (read,) = answer.peeked.files
                if read.error:
                    raise NotFoundError(f"the {file} of job {job}: {read.error}")
                return bytes(read.data)
            raise BusyError(f"job {job} has ended")
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None
        finally:
            visit.cancel()

    async def submit(
        self, description: Description, count: int | None = None, options: ReadOptions = USUAL
    ) -> SubmitResult:
        """Queue the jobs of a submit description; all of them or none. Many of these may be under way at once."""
        submission, first = await self._read(description, count, options)
        if options.spool and not options.elsewhere:
            _check_files(submission)
        how = Sending(self._keys.next(), first, spool=options.spool)
        if (bundle := convert.small_bundle(submission, how)) is not None:
            return convert.result(await self._stream.submit(bundle), submission)

        async def send(again: bool) -> schedd_pb2.SubmitReply:
            parts = convert.parts(submission, how, again)
            reply: schedd_pb2.SubmitReply = await stated(self._stub.Submit(parts, metadata=self._at.metadata()))
            return reply

        return convert.result(await self._patience.acall(send), submission)

    async def wait(
        self,
        jobs: Jobs | SubmitResult,
        projection: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
        through_holds: bool = False,
    ) -> AdList:
        """As :meth:`Schedd.wait`."""
        constraint = waiting.constraint_of(jobs)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        asked = 0
        while not (seen := Progress.of_counts(await self.count_by(["JobStatus"], constraint))).is_over:
            if seen.is_stuck and not through_holds:
                raise waiting.held_error(await self.query(*waiting.held_among(constraint), limit=1), seen.held)
            asked += 1
            await asyncio.sleep(seen.pause_s(asked, None if deadline is None else deadline - time.monotonic()))
        wanted = waiting.with_ids(projection)
        return waiting.each_once(await self.query(constraint, wanted), await self.history(constraint, wanted))

    async def send_input(self, job: str, name: str, data: AsyncIterator[bytes], *, mode: int = 0o644) -> None:
        """Send an input file of a job, or of all jobs of a cluster, submitted with ``ReadOptions(spool=True)``.

        :param name: below the job's directory.
        :param data: the file in pieces of at most :data:`slotwise.wire.sizes.PIECE` bytes.
        :raises UsageError: the job does not wait for files.
        """
        failed: list[Exception] = []

        async def parts() -> AsyncIterator[schedd_pb2.SpoolPart]:
            offset = 0
            try:
                async for piece in data:
                    file = schedd_pb2.FilePiece(name=os.fsencode(name), mode=mode, data=piece, offset=offset)
                    yield schedd_pb2.SpoolPart(jobs=[job], file=file)
                    offset += len(piece)
            except Exception as error:
                failed.append(error)
                return
            file = schedd_pb2.FilePiece(name=os.fsencode(name), mode=mode, offset=offset, last=True)
            yield schedd_pb2.SpoolPart(jobs=[job], file=file)

        try:
            await self._perform(Call("Spool", parts(), nothing, timeout_s=None))
        finally:
            if failed:
                raise failed[0]

    async def inputs_complete(self, job: str) -> ActResult:
        """All input files of such a job, or of the jobs of a cluster, are there: they may run."""

        async def commit() -> AsyncIterator[schedd_pb2.SpoolPart]:
            yield schedd_pb2.SpoolPart(jobs=[job], commit=True)

        return await self._perform(Call("Spool", commit(), convert.acted, timeout_s=None))

    async def sandboxes(self, job: str, only: str = "") -> AsyncIterator[schedd_pb2.SandboxPiece]:
        """What a spooled job, or each job of a cluster, has left: its ad, and its files in pieces as they are taken.

        The jobs stay in the queue. ``only``: the name of one file.
        """
        asked = schedd_pb2.JobSelection(ids=[job], file=os.fsencode(only), keep=True)
        try:
            async for piece in self._stub.FetchSandboxes(asked, metadata=self._at.metadata()):
                yield piece
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None

    async def spool(self, submitted: SubmitResult, progress: Tell | None = None) -> None:
        """As :meth:`Schedd.spool`; files are read, and ``progress`` is told, in other threads."""
        outgoing = _outgoing(submitted, progress)

        async def parts() -> AsyncIterator[schedd_pb2.SpoolPart]:
            each = iter(outgoing)
            while (part := await asyncio.to_thread(next, each, None)) is not None:
                yield part

        try:
            await self._perform(Call("Spool", parts(), nothing, timeout_s=None))
        finally:
            if outgoing.error is not None:
                raise outgoing.error

    async def retrieve(self, jobs: Jobs, directory: str | Path | None = None, progress: Tell | None = None) -> int:
        """As :meth:`Schedd.retrieve`; files are written in other threads."""
        arrivals: dict[str, spool.Arrivals] = {}
        meter = spool.Meter(progress)
        place = Path(directory) if directory is not None else None
        try:
            async for piece in self._stub.FetchSandboxes(convert.selection(jobs), metadata=self._at.metadata()):
                await asyncio.to_thread(spool.arrive, piece, arrivals, place)
                if not piece.ad:
                    meter.count(piece.file)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None
        return sum(each.count for each in arrivals.values())

    async def _read(self, description: Description, count: int | None, options: ReadOptions) -> tuple[Submission, int]:
        """The submission, and its first cluster id when its text needs that before it is sent, else 0."""
        candidate = self._ids.likely()
        submission = self._reader.read(description, count, candidate, options)
        if not submission.mentions_cluster:
            return submission, 0
        needed = len(submission.clusters)
        if not self._ids.enough(needed):
            asked = schedd_pb2.ReserveClustersRequest(count=self._ids.block(needed))
            reply = await self._patience.acall(
                lambda again: self._stub.ReserveClusters(asked, metadata=self._at.metadata())
            )
            self._ids.refill(reply.first, asked.count)
        first = self._ids.use(needed)
        if first != candidate:
            submission = self._reader.read(description, count, first, options)
        return submission, first

"""The gRPC service of the schedd: adapts calls to its parts."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol, TypeAlias

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.pages import Page
from slotwise.errors import DeniedError, UsageError
from slotwise.model.credential_names import USE
from slotwise.model.ownership import same_user
from slotwise.schedd.api import convert, submit_stream
from slotwise.schedd.api.audit_lines import acted, came, edited, ran_now, users_edited
from slotwise.schedd.api.credential_requests import CredentialRequests
from slotwise.schedd.api.dag_views import DagViews
from slotwise.schedd.api.job_actions import Actions
from slotwise.schedd.api.listing import Listing, as_json
from slotwise.schedd.api.now_requests import NowRequests
from slotwise.schedd.api.requests import JobQuery
from slotwise.schedd.api.submit_stream import Frames, SubmissionStream
from slotwise.schedd.api.user_actions import Users
from slotwise.schedd.claims import convert as claim_values
from slotwise.schedd.claims.ends.excess import Excess
from slotwise.schedd.claims.matching.match_results import MatchOutcomes
from slotwise.schedd.claims.matching.matches import Match
from slotwise.schedd.claims.matching.rejections import Rejections
from slotwise.schedd.claims.matching.resource_requests import Requests
from slotwise.schedd.history.query import History
from slotwise.schedd.jobs.decision import LogLine
from slotwise.schedd.jobs.selection import require_few
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.shadow.shadow import Shadows
from slotwise.schedd.submission import convert as submissions
from slotwise.schedd.submission.admission import Admission
from slotwise.schedd.submission.byte_limits import Holding
from slotwise.schedd.submission.cluster_ids import ClusterIds
from slotwise.schedd.submission.new_cluster import SubmittedCluster
from slotwise.schedd.submission.transaction import SubmitTransactions
from slotwise.schedd.transfer import convert as files
from slotwise.schedd.transfer.spooling import Spooling
from slotwise.schedd.users.superusers import SuperUsers
from slotwise.table import Form, pack_ads
from slotwise.wire import audit, tls
from slotwise.wire.call import peer_of
from slotwise.wire.context import Context, StreamContext
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.match_pieces import MatchPieces
from slotwise.wire.security import Authenticator, Identity
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)
Starters: TypeAlias = StreamContext[schedd_pb2.StarterMessage, schedd_pb2.ShadowMessage]
#: User records in one message.
_USERS = 1000


class Matches(Protocol):
    """What takes the matches of a negotiator."""

    def offer(self, matches: Iterable[Match]) -> int:
        """Claim the slots of a cycle's matches; returns how many could be used."""


class ExcessClaims(Protocol):
    """What gives claims back that are beyond their submitters' shares."""

    def note_excess(self, excess: list[Excess], lasts_s: float) -> None:
        """Give back idle ones now, others when their jobs end within ``lasts_s`` seconds."""


class ScheddServicer(schedd_pb2_grpc.ScheddServicer):
    """Implements ``slotwise.v1.Schedd``."""

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Clock,
        *,
        admission: Admission,
        transactions: SubmitTransactions,
        cluster_ids: ClusterIds,
        actions: Actions,
        listing: Listing,
        history: History,
        requests: Requests,
        matches: Matches,
        excess: ExcessClaims,
        rejections: Rejections,
        outcomes: MatchOutcomes,
        shadows: Shadows,
        spooling: Spooling,
        superusers: SuperUsers,
        users: Users,
        now: NowRequests,
        dag_views: DagViews,
        credentials: CredentialRequests,
    ) -> None:
        self._authenticator = authenticator
        self._clock = clock
        self._admission = admission
        self._transactions = transactions
        self._cluster_ids = cluster_ids
        self._actions = actions
        self._listing = listing
        self._history = history
        self._requests = requests
        self._matches = matches
        self._excess = excess
        self._rejections = rejections
        self._outcomes = outcomes
        self._pieces = MatchPieces()
        self._shadows = shadows
        self._spooling = spooling
        self.superusers = superusers
        self._users = users
        self._now = now
        self._dag_views = dag_views
        self._credentials = credentials

    # ---- submission

    @answers_errors
    async def SubmitOne(self, request: schedd_pb2.SubmitBundle, context: Context) -> schedd_pb2.SubmitReply:
        """Queue a submission that fits one message."""
        caller = self._authenticator.caller(context)
        with Holding(self._transactions.intake, caller.name) as holding:
            holding.add(request.ByteSize())
            clusters = [submissions.submitted_cluster(cluster) for cluster in request.clusters]
            return await self._submit(caller, context, clusters, request.key, request.again)

    @answers_errors
    async def Submit(
        self, request_iterator: AsyncIterator[schedd_pb2.SubmitPart], context: Context
    ) -> schedd_pb2.SubmitReply:
        """Queue a submission that arrives in parts; without its ``commit``, nothing is queued."""
        caller = self._authenticator.caller(context)
        with Holding(self._transactions.intake, caller.name) as holding:
            clusters, key, again = await submit_stream.gather(request_iterator, holding)
            return await self._submit(caller, context, clusters, key, again)

    @answers_errors
    async def SubmitMany(self, request_iterator: AsyncIterator[schedd_pb2.SubmitFrame], context: Frames) -> None:
        """Queue submissions as they arrive; those of one frame become durable together."""
        caller = self._authenticator.caller(context)
        stream = SubmissionStream(self._admission, self._transactions, caller.name, peer_of(context))
        await stream.serve(context)

    async def _submit(
        self, caller: Identity, context: Context, clusters: list[SubmittedCluster], key: bytes, again: bool
    ) -> schedd_pb2.SubmitReply:
        result = await self._transactions.submit(caller.name, clusters, key=key, again=again, peer=peer_of(context))
        audit.note(came(result.clusters))
        return submissions.reply(result)

    @answers_errors
    async def ReserveClusters(
        self, request: schedd_pb2.ReserveClustersRequest, context: Context
    ) -> schedd_pb2.ReserveClustersReply:
        """Reserve cluster ids ahead of a submission."""
        user = self._authenticator.caller(context).name
        return schedd_pb2.ReserveClustersReply(first=await self._cluster_ids.reserve(user, request.count))

    # ---- actions and queries

    def _is_superuser(self, caller: Identity) -> bool:
        return caller.may("ADMINISTRATOR") or self.superusers.has(caller.name)

    @answers_errors
    async def Act(self, request: schedd_pb2.ActRequest, context: Context) -> schedd_pb2.ActReply:
        """Remove, hold, release, suspend, continue or vacate jobs."""
        caller = self._authenticator.caller(context)
        action = convert.job_action(request)
        outcome = await self._actions.act(caller, action, self._is_superuser(caller))
        _note(acted(caller.name, peer_of(context), action, outcome))
        return convert.action_reply(outcome)

    @answers_errors
    async def Edit(self, request: schedd_pb2.EditRequest, context: Context) -> schedd_pb2.ActReply:
        """Change attributes of jobs."""
        caller = self._authenticator.caller(context)
        edit = convert.job_edit(request)
        outcome = await self._actions.edit(caller, edit, self._is_superuser(caller))
        if not edit.dry_run:
            _note(edited(caller.name, peer_of(context), edit, outcome))
        return convert.action_reply(outcome)

    @answers_errors
    async def RunNow(self, request: schedd_pb2.RunNowRequest, context: Context) -> common_pb2.Empty:
        """Vacate running jobs, and start an idle one of the same user in their place."""
        caller = self._authenticator.caller(context)
        require_few(request.vacate)
        await self._now.run(caller, request.job, request.vacate, self._is_superuser(caller))
        _note(ran_now(caller.name, peer_of(context), request.job, request.vacate))
        return common_pb2.Empty()

    @answers_errors
    async def ShowDag(self, request: schedd_pb2.ShowDagRequest, context: Context) -> schedd_pb2.ShowDagReply:
        """Show a DAG to its owner."""
        caller = self._authenticator.caller(context)
        json = await self._dag_views.show(caller, request.job, self._is_superuser(caller))
        return schedd_pb2.ShowDagReply(json=json)

    @answers_errors
    async def EditUsers(self, request: schedd_pb2.UsersEdit, context: Context) -> schedd_pb2.UsersReply:
        """Add, enable, disable, edit or remove records of users or projects."""
        caller = self._authenticator.caller(context)
        edit = convert.users_edit(request)
        done = await self._users.edit(edit)
        _note(users_edited(caller.name, peer_of(context), edit, done))
        return convert.users_reply(done)

    @answers_errors
    async def Users(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """List records of users, or of projects, or of both: ``kind`` is Owner, Project or these with a comma."""
        kinds = {kind.strip() for kind in request.kind.split(",")}
        ads = await self._users.ads(request.constraint) if kinds != {"Project"} else []
        if "Project" in kinds:
            ads += await self._users.project_ads(request.constraint)
        for start in range(0, len(ads), _USERS):
            yield common_pb2.AdChunk(data=pack_ads(ads[start : start + _USERS]))
        yield common_pb2.AdChunk(done=True, total=len(ads))

    @answers_errors
    async def Query(self, request: schedd_pb2.JobQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """List jobs in the queue."""
        caller = self._authenticator.caller(context)
        query = convert.job_query(request)
        if query.mine_only and self._is_superuser(caller):
            query = query.of_everyone()
        if request.totals_only or request.batches or request.view:
            async for chunk in self._view(caller, query, request.view, batches=request.batches):
                yield chunk
        elif query.form is None and query.count_by:
            rows = await self._listing.count_by(caller, query)
            yield common_pb2.AdChunk(data=pack_ads(rows), done=True, total=len(rows))
        elif query.form is None:
            yield common_pb2.AdChunk(done=True, total=await self._listing.count(caller, query))
        elif query.page is not None:
            page = Page(query.limit, query.projection, query.form)
            async for chunk in _chunks(page.pieces(self._listing.page(caller, query, query.page)), query.form, page):
                yield chunk
        else:
            async for chunk in _chunks(self._ads(caller, query), query.form):
                yield chunk

    async def _ads(self, caller: Identity, query: JobQuery) -> AsyncIterator[tuple[bytes, int]]:
        """The selected ads: pieces of text or packs, each with the number of ads that it adds."""
        loop = asyncio.get_running_loop()
        async for chunks in self._listing.chunks(caller, query):
            count = chunks.total
            while (piece := await loop.run_in_executor(None, next, chunks, None)) is not None:
                yield piece, count
                count = 0

    async def _view(
        self, caller: Identity, query: JobQuery, view: str, *, batches: bool
    ) -> AsyncIterator[common_pb2.AdChunk]:
        """Tables for people: rows first, header and totals as JSON in the last piece."""
        if batches:
            yield common_pb2.AdChunk(data=as_json(await self._listing.batches(caller, query)))
        elif view == "nobatch":
            async for text in self._listing.lines(caller, query):
                yield common_pb2.AdChunk(data=text.encode("utf-8", "surrogateescape"))
                await asyncio.sleep(0)
        elif view == "factory":
            yield common_pb2.AdChunk(data=pack_ads(self._listing.factories(caller, query)))
        elif view == "jobset":
            yield common_pb2.AdChunk(data=pack_ads(await self._listing.job_set_ads(caller, query)))
        elif view == "cluster":
            yield common_pb2.AdChunk(data=pack_ads(await self._listing.cluster_ads(caller, query)))
        elif view == "actions":
            yield common_pb2.AdChunk(data=pack_ads(self._listing.actions()))
        elif view:
            raise UsageError(f"there is no view {view!r}", hint="nobatch, factory, jobset, cluster or actions")
        totals = await self._listing.totals(caller, query, superuser=self._is_superuser(caller))
        yield common_pb2.AdChunk(data=as_json(totals), done=True)

    @answers_errors
    async def History(self, request: schedd_pb2.HistoryQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """List jobs that have left the queue."""
        query = convert.history_query(request)
        await self._history.settled()  # a job that left the queue a moment ago is found
        if query.page_after is not None and query.form is not None:
            page = Page(query.limit, query.projection, query.form)
            found = self._history.page(self._listing.questions, query)
            async for chunk in _chunks(page.pieces(found), query.form, page):
                yield chunk
            return
        async for chunk in _chunks(self._history.answer(self._listing.questions, query), query.form):
            yield chunk

    # ---- spooled files

    @answers_errors
    async def Spool(
        self, request_iterator: AsyncIterator[schedd_pb2.SpoolPart], context: Context
    ) -> schedd_pb2.ActReply:
        """Receive the files of jobs that were submitted with ``-spool``."""
        caller = self._authenticator.caller(context)
        parts = files.spooled_parts(request_iterator)
        released = await self._spooling.receive(caller, parts, lambda: self._is_superuser(caller))
        return schedd_pb2.ActReply(totals={"success": released} if released else {})

    @answers_errors
    async def FetchSandboxes(
        self, request: schedd_pb2.JobSelection, context: Context
    ) -> AsyncIterator[schedd_pb2.SandboxPiece]:
        """Send the sandboxes of such jobs."""
        caller = self._authenticator.caller(context)
        only, keep = os.fsdecode(request.file), request.keep
        superuser = self._is_superuser(caller)
        async for part in self._spooling.fetch(caller, convert.selection(request), superuser, only, keep=keep):
            self._check_still(superuser, caller)
            yield files.sandbox_piece(part)

    def _check_still(self, superuser: bool, caller: Identity) -> None:
        """A caller that began a long answer as a queue superuser is one still.

        :raises DeniedError: it is not.
        """
        if superuser and not self._is_superuser(caller):
            raise DeniedError(f"{caller.name} is not a queue superuser any more", hint="ask for your own jobs")

    @answers_errors
    async def FetchEvicted(
        self, request: schedd_pb2.EvictedQuery, context: Context
    ) -> AsyncIterator[schedd_pb2.SandboxPiece]:
        """What evicted runs of a job have left for its next."""
        caller = self._authenticator.caller(context)
        superuser = self._is_superuser(caller)
        async for part in self._spooling.fetch_evicted(caller, request.id, superuser, names_only=request.names_only):
            self._check_still(superuser, caller)
            yield files.sandbox_piece(part)

    @answers_errors
    async def Visit(
        self, request_iterator: AsyncIterator[schedd_pb2.JobVisit], context: Context
    ) -> AsyncIterator[schedd_pb2.JobVisit]:
        """Relay an interactive session with a running job."""
        caller = self._authenticator.caller(context)

        def may_act(user: str) -> bool:
            return self._is_superuser(caller) or same_user(user, caller.name)

        async for said in self._shadows.visits.serve(aiter(request_iterator), caller.name, may_act):
            yield said

    # ---- credentials

    @answers_errors
    async def StoreCredential(
        self, request: schedd_pb2.CredentialStoring, context: Context
    ) -> schedd_pb2.CredentialState:
        """Store a credential of a user."""
        done = await self._credentials.store(
            self._authenticator.caller(context),
            convert.credential_asked(request.credential),
            request.content,
            refreshed=request.refreshed if request.HasField("refreshed") else None,
            is_private=tls.carries_secrets(context),
        )
        return convert.credential_state(done)

    @answers_errors
    async def QueryCredentials(
        self, request: schedd_pb2.CredentialQuery, context: Context
    ) -> schedd_pb2.CredentialState:
        """Which credentials are stored of a user."""
        caller = self._authenticator.caller(context)
        return convert.credential_state(await self._credentials.query(caller, convert.credential_asked(request)))

    @answers_errors
    async def DeleteCredential(self, request: schedd_pb2.CredentialQuery, context: Context) -> common_pb2.Empty:
        """Remove a credential of a user, or all."""
        await self._credentials.delete(self._authenticator.caller(context), convert.credential_asked(request))
        return common_pb2.Empty()

    @answers_errors
    async def FetchCredential(self, request: schedd_pb2.CredentialQuery, context: Context) -> schedd_pb2.CredentialFile:
        """The token that jobs of the caller get."""
        caller, asked = self._authenticator.caller(context), convert.credential_asked(request)
        name, token = await self._credentials.fetch(caller, asked, is_private=tls.carries_secrets(context))
        return schedd_pb2.CredentialFile(name=f"{name.stem}{USE}", content=token)

    @answers_errors
    async def CheckCredentials(self, request: schedd_pb2.CredentialCheck, context: Context) -> common_pb2.Empty:
        """See that the tokens are there that jobs of the caller need."""
        await self._credentials.check(self._authenticator.caller(context), request.needed, request.requests)
        return common_pb2.Empty()

    # ---- negotiation

    @answers_errors
    async def ResourceRequests(
        self, request: schedd_pb2.ResourceRequestsQuery, context: Context
    ) -> AsyncIterator[schedd_pb2.RequestList]:
        """Send the outcomes of earlier matches, submitter ads, and the resource requests of each submitter."""
        self._requests.learn(request.significant_attributes)
        yield schedd_pb2.RequestList(
            outcomes=map(claim_values.match_outcome, self._outcomes.tell()), reports_outcomes=True
        )
        if request.with_submitters:
            yield schedd_pb2.RequestList(submitters=pack_submitters(self._requests.submitter_ads()))
        packs = self._requests.packs(
            list(request.submitters),
            request.max_jobs_per_submitter,
            request.job_constraint,
            self._clock.now(),
        )
        for pack in packs:
            yield schedd_pb2.RequestList(pack=pack)
            await asyncio.sleep(0)
        yield schedd_pb2.RequestList(done=True)

    @answers_errors
    async def OfferMatches(self, request: schedd_pb2.MatchBatch, context: Context) -> common_pb2.Empty:
        """Take the matches of a cycle."""
        batch = self._pieces.take(request)
        if batch is None:
            return common_pb2.Empty()
        self._excess.note_excess(claim_values.excess(batch.excess), batch.excess_lasts_s)
        self._matches.offer(claim_values.matches(batch.submitters))
        with contained(_log, "noting why requests were not matched"):
            self._rejections.note(claim_values.rejections(batch.submitters), batch.negotiator_name)
        return common_pb2.Empty()

    # ---- running jobs

    async def Shadow(self, request_iterator: AsyncIterator[schedd_pb2.StarterMessage], context: Starters) -> None:
        """Serve a starter's stream."""
        await self._shadows.serve(context)


def _note(line: LogLine) -> None:
    """Write a line into the log and the audit log."""
    _log.info(*line)
    audit.note(*line)


async def _chunks(
    pieces: AsyncIterator[tuple[bytes, int]], form: Form | None, page: Page | None = None
) -> AsyncIterator[common_pb2.AdChunk]:
    """The answer to a query: pieces, each with the number of ads that it adds; as one list where the form is JSON.

    :param page: what the pieces are of, if it is a page.
    """
    is_json, total, begun = form == "json", 0, False
    opening = b"[\n" if is_json else b""
    async for piece, count in pieces:
        total += count
        if piece:
            yield common_pb2.AdChunk(data=opening + piece)
            opening, begun = b",\n" if is_json else b"", True
    # Jobs that were counted may be gone by the time that their ads are written.
    closing = b"" if not is_json else (b"\n]\n" if begun else b"[\n]\n")
    yield common_pb2.AdChunk(data=closing, done=True, total=total, next=page.next if page is not None else "")


def pack_submitters(ads: Mapping[str, Changes]) -> bytes:
    """Submitter ads as a pack with their keys."""
    return pack_ads(list(ads.values()), keys=list(ads))

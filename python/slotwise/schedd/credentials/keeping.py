"""Keeps the credentials of users: takes them in, makes and renews the tokens of jobs, removes what nobody needs.

What HTCondor has a condor_credd and a condor_credmon for. A user's directory is named by the account; a user of a
domain whose users have no accounts here is named in full, so that nobody reaches another's by a like name.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from slotwise import ids
from slotwise.backoff import Backoff
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import DeniedError, HostError, NotFoundError, SlotwiseError, UsageError
from slotwise.model.credential_names import USE, CredentialName, CredentialRequest, requests_of
from slotwise.schedd.credentials import issuer, oauth_client, rules
from slotwise.schedd.credentials.rules import Match
from slotwise.schedd.credentials.settings import CredentialSettings, Kind
from slotwise.schedd.credentials.store import TOP, CredentialStore

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
#: How often tokens are looked at, seconds: as often as HTCondor's credmon does.
_LOOK_S = 60.0
#: The most bytes of tokens that a job gets: they travel in one message, on the stream of all jobs of a host.
_OF_JOB = 1 << 20
#: Waits after a service has given no token.
_RETRIES = Backoff(60.0, 2.0, 3600.0)


class Outcome(Struct, frozen=True):
    """What became of a request about a user's credentials.

    ``pending``: one waits for its token. ``files``: when each file was written. ``note``: what the user should know.
    """

    user: str
    pending: bool = False
    files: dict[str, float] = {}
    note: str = ""


class _Failure(Struct):
    """A token that could not be renewed: how often in a row, and when that is tried again."""

    count: int
    again_at: float


class CredentialKeeper:
    """The credentials of all users of an access point.

    :param folder_of: the directory of ``user@domain``.
    :param with_jobs: the users who have jobs in the queue.
    """

    def __init__(self, clock: Clock, folder_of: Callable[[str], str], with_jobs: Callable[[], Iterable[str]]) -> None:
        self._clock = clock
        self._folder_of = folder_of
        self._with_jobs = with_jobs
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="credentials")
        self._settings = CredentialSettings()
        self._files: CredentialStore | None = None
        #: Held while a user's files change.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._failures: dict[tuple[str, str], _Failure] = {}
        #: Until when tokens that the access point signs need no look, by directory and service.
        self._fresh: dict[tuple[str, str], float] = {}
        #: When a token that could not be signed for a submission is tried again.
        self._tried: dict[tuple[str, str], float] = {}
        self._swept_at = 0.0

    @property
    def settings(self) -> CredentialSettings:
        """The knobs."""
        return self._settings

    def follow(self, settings: CredentialSettings) -> None:
        """Go by new knobs."""
        self._settings = settings
        self._fresh.clear()
        self._tried.clear()
        self._failures.clear()
        directory = settings.directory
        self._files = None if directory is None else CredentialStore(directory, trusted=settings.trusts_directory)
        try:
            if self._files is not None:
                self._files.check()
        except (HostError, OSError) as error:
            _log.error("%s", error)

    def close(self) -> None:
        """End its threads."""
        self._threads.shutdown(wait=False)

    # ---- requests of users

    async def store(
        self, user: str, request: CredentialRequest, data: bytes, *, refreshed: bool | None = None
    ) -> Outcome:
        """Store a credential in the place of any that there is.

        :param refreshed: it is what tokens are made with, and no token; None: that follows from the service.
        :raises SlotwiseError: when it is not stored.
        """
        name, files, folder = request.name, self._store(), self._folder_of(user)
        kind = self._settings.kind(name.service)
        if not data.strip():
            raise UsageError("Operation aborted due to missing or bad arguments", hint="the credential is empty")
        vault = self._vault_host(data)
        if refreshed is None:
            refreshed = kind is not Kind.STORED or vault
        if refreshed and (request.scopes or request.audience):
            data = _with_request(data, request)
        async with self._lock(folder):
            await self._in_thread(files.write, folder, name, TOP if refreshed else USE, data, self._clock.now())
            await self._in_thread(files.forget_jobs, folder)
            self._failures.pop((folder, name.stem), None)
            self._fresh.pop((folder, name.stem), None)
            _log.info("stored the credential %s of %s", name.shown, user)
            note = ""
            if refreshed and kind is Kind.STORED:
                note = f"nothing here makes tokens of {name.service}: store an access token (-P), or have the " + (
                    "administrator set its CLIENT_ID and TOKEN_URL"
                )
            elif refreshed:
                try:
                    await self._renew(folder, name, kind)
                except SlotwiseError as error:
                    self._failed(folder, name, error)
                    note = error.message
            found = await self._in_thread(files.files, folder)
        return Outcome(user, f"{name.stem}{USE}" not in found, _of(name, found), note)

    async def query(self, user: str, request: CredentialRequest | None) -> Outcome:
        """What is stored of a user, of one credential or of all.

        :raises NotFoundError: nothing is.
        :raises UsageError: it was stored for other scopes, or another audience.
        """
        files, folder = self._store(), self._folder_of(user)
        found = await self._in_thread(files.files, folder)
        if request is None:
            tops = [name for name in found if name.endswith(TOP)]
            if not found:
                raise NotFoundError("No credential is stored")
            return Outcome(user, any(f"{name.removesuffix(TOP)}{USE}" not in found for name in tops), found)
        name = request.name
        mine = _of(name, found)
        if not mine:
            raise NotFoundError("No credential is stored")
        if f"{name.stem}{TOP}" in mine and (request.scopes or request.audience):
            top = await self._in_thread(files.read, folder, name, TOP)
            answer = rules.matches(top.data, request) if top is not None else Match.FITS
            if answer is Match.UNREADABLE:
                raise UsageError("Failure parsing credential as JSON")
            if answer is Match.DIFFERS:
                raise UsageError("Credential was found but it did not match requested scopes or audience")
        return Outcome(user, f"{name.stem}{USE}" not in mine, mine)

    async def delete(self, user: str, name: CredentialName | None) -> None:
        """Remove one credential of a user, or all."""
        files, folder = self._store(), self._folder_of(user)
        async with self._lock(folder):
            if name is None:
                await self._in_thread(files.remove_all, folder)
            else:
                await self._in_thread(files.remove, folder, name)
        stem = None if name is None else name.stem
        for known in (self._fresh, self._failures):
            for key in [key for key in known if key[0] == folder and stem in (None, key[1])]:
                del known[key]
        _log.info("removed %s of %s", "all credentials" if name is None else f"the credential {name.shown}", user)

    async def fetch(self, user: str, name: CredentialName) -> bytes:
        """The token that the user's jobs get.

        :raises NotFoundError: there is none.
        """
        found = await self._in_thread(self._store().read, self._folder_of(user), name, USE)
        if found is None:
            raise NotFoundError(f"{name.stem}{USE} not an existing regular file", hint=name.remedy)
        return found.data

    # ---- jobs

    async def check(self, user: str, needed: str, details: str, universe: object = None) -> None:
        """Look before a submission whether the tokens that its jobs need are there, and make those that can be made.

        :raises SlotwiseError: one is not, with what its user does about it.
        """
        for request in rules.completed(requests_of(needed, details), universe, self._settings):
            await self._require(user, request)

    async def provide(self, user: str) -> None:
        """Make the tokens that every user who submits gets; what fails is in the log."""
        folder, now = self._folder_of(user), self._clock.now()
        for service in self._settings.for_all:
            name = CredentialName(service)
            if not self._is_fresh(folder, name, now) and self._tried.get((folder, service), 0.0) <= now:
                try:
                    await self._signed(folder, name)
                except (SlotwiseError, OSError) as error:
                    self._tried[folder, service] = now + _LOOK_S
                    _log.error("Failed to renew SciToken for user: %s (%s: %s)", folder, service, error)

    async def for_job(self, user: str, needed: str) -> dict[str, bytes]:
        """The files of tokens of a job that is about to start, by name.

        :raises SlotwiseError: one is not there.
        """
        found = {}
        files, folder = self._store(), self._folder_of(user)
        for name in CredentialName.needed(needed):
            if self._settings.kind(name.service) is Kind.LOCAL:
                await self._signed(folder, name)
            token = await self._in_thread(files.read, folder, name, USE)
            if token is None:
                raise NotFoundError(f"{user} has no token of {name.shown}", hint=name.remedy)
            found[f"{name.stem}{USE}"] = token.data
            if sum(map(len, found.values())) > _OF_JOB:
                raise DeniedError(f"the tokens of the job have more than {_OF_JOB} bytes", hint="name fewer services")
        return found

    async def _require(self, user: str, request: CredentialRequest) -> None:
        name, files, folder = request.name, self._store(), self._folder_of(user)
        kind = self._settings.kind(name.service)
        if kind is Kind.LOCAL:
            try:
                await self._signed(folder, name)
            except SlotwiseError as error:
                text = f"OAuth error: Failed to generate credential '{name.service}': {error.message}"
                raise HostError(text, hint=error.hint) from None
            return
        stored = await self._in_thread(files.files, folder)
        if kind is Kind.OAUTH2:
            top = await self._in_thread(files.read, folder, name, TOP)
            if top is None:
                raise UsageError(f"OAuth error: Credential '{name.shown}' is missing", hint=name.remedy)
            if rules.matches(top.data, request) is Match.DIFFERS:
                handle = f" -H {name.handle}" if name.handle else ""
                raise UsageError(
                    "OAuth error: credentials exist that do not match the request",
                    hint=f"if no other job uses them, condor_store_cred delete-oauth -s {name.service}{handle}",
                )
            if f"{name.stem}{USE}" not in stored:
                async with self._lock(folder):
                    try:
                        await self._renew(folder, name, kind)
                    except SlotwiseError as error:
                        raise HostError(f"OAuth error: {error.message}", hint=error.hint) from None
        elif f"{name.stem}{USE}" not in stored:
            raise UsageError(f"OAuth error: Credential '{name.shown}' of unknown type is missing", hint=name.remedy)

    # ---- tokens

    async def run(self) -> None:
        """Renew tokens, and remove credentials that nobody needs, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with contained(_log, "looking at credentials"):
                await self.look()

    async def look(self) -> None:
        """Renew what is due, and remove what nobody needs."""
        if self._files is None:
            return
        folders = await self._in_thread(self._files.users)
        now = self._clock.now()
        if now >= self._swept_at + self._settings.sweep_interval_s or now < self._swept_at:
            self._swept_at = now
            await self._sweep(self._files, folders, now)
        for folder in folders:
            for name in await self._in_thread(self._files.files, folder):
                if name.endswith(TOP):
                    with contained(_log, f"renewing {name} of {folder}"):
                        await self._look(folder, name.removesuffix(TOP))

    async def _look(self, folder: str, stem: str) -> None:
        service, _, handle = stem.partition("_")
        name = CredentialName.of(service, handle)
        kind, now = self._settings.kind(stem), self._clock.now()
        if kind is Kind.STORED:
            kind = self._settings.kind(service)
        else:
            name = CredentialName.of(stem)  # the service itself has an underscore in its name
        failure = self._failures.get((folder, stem))
        if kind is Kind.STORED or self._files is None or (failure is not None and now < failure.again_at):
            return
        async with self._lock(folder):
            use = await self._in_thread(self._files.read, folder, name, USE)
            if not rules.is_due(use, self._lifetime_s(name), now):
                return
            try:
                await self._renew(folder, name, kind)
            except SlotwiseError as error:
                self._failed(folder, name, error)

    async def _signed(self, folder: str, name: CredentialName) -> None:
        """See that there is a token that the access point signs, and that it has half of its time yet."""
        now = self._clock.now()
        files = self._store()
        if self._is_fresh(folder, name, now):
            return
        async with self._lock(folder):
            use = await self._in_thread(files.read, folder, name, USE)
            if rules.is_due(use, self._lifetime_s(name), now):
                await self._renew(folder, name, Kind.LOCAL)
            elif use is not None:
                self._fresh[folder, name.stem] = now + 1.0

    def _is_fresh(self, folder: str, name: CredentialName, now: float) -> bool:
        """Whether a token that the access point has signed is known to need no look."""
        return self._fresh.get((folder, name.stem), 0.0) > now and self._store().has(folder, name)

    def _lifetime_s(self, name: CredentialName) -> float | None:
        found = self._settings.issuers.get(name.service)
        return None if found is None else found.lifetime_s

    async def _renew(self, folder: str, name: CredentialName, kind: Kind) -> None:
        """Make a new token. The user's lock is held.

        :raises SlotwiseError: when none can be had.
        """
        files, now = self._store(), self._clock.now()
        if kind is Kind.LOCAL:
            about = self._settings.issuers[name.service]
            token = await self._in_thread(issuer.issue, folder, about, now, ids.secret(128))
            if await self._in_thread(files.read, folder, name, TOP) is None:
                await self._in_thread(files.write, folder, name, TOP, folder.encode(), now)
            await self._in_thread(files.write, folder, name, USE, token, now)
            self._fresh[folder, name.stem] = now + about.lifetime_s / 2
            _log.info("Successfully renewed SciToken for user: %s (%s)", folder, name.shown)
        else:
            client = self._settings.client(name.service)
            top = await self._in_thread(files.read, folder, name, TOP)
            if client is None or top is None:
                raise NotFoundError(f"{folder} has no refresh token of {name.shown}", hint=name.remedy)
            tokens = await self._in_thread(oauth_client.refresh, name.service, client, top.data)
            # The new refresh token first: the service may have ended the former one.
            if tokens.refresh_token != oauth_client.refresh_token_of(top.data):
                renewed = oauth_client.with_refresh_token(top.data, tokens.refresh_token)
                await self._in_thread(files.write, folder, name, TOP, renewed, now)
            await self._in_thread(files.write, folder, name, USE, tokens.use, now)
            _log.info("Successfully refreshed %s tokens for user %s", name.shown, folder)
        self._failures.pop((folder, name.stem), None)

    def _failed(self, folder: str, name: CredentialName, error: SlotwiseError) -> None:
        known = self._failures.setdefault((folder, name.stem), _Failure(0, 0.0))
        known.count += 1
        delay_s = _RETRIES.delay_s(known.count)
        known.again_at = self._clock.now() + delay_s
        _log.error("Failed to refresh %s tokens for user %s: %s; again in %.0f s", name.shown, folder, error, delay_s)

    # ---- removal

    async def _sweep(self, files: CredentialStore, folders: Sequence[str], now: float) -> None:
        """Remove the credentials of users whose last job has left the queue long ago; who never had one keeps them."""
        busy = {self._folder_of(user) for user in self._with_jobs()}
        for folder in folders:
            with contained(_log, f"looking whether {folder} needs credentials"):
                if folder in busy:
                    await self._in_thread(files.note_jobs, folder, now)
                    continue
                last = await self._in_thread(files.last_jobs, folder)
                if last is None or now < last + self._settings.sweep_delay_s:
                    continue
                async with self._lock(folder):
                    if not any(self._folder_of(user) == folder for user in self._with_jobs()):
                        await self._in_thread(files.remove_all, folder)
                        for key in [key for key in self._fresh if key[0] == folder]:
                            del self._fresh[key]
                        _log.info("removed the credentials of %s, who has had no job for %.0f s", folder, now - last)

    # ---- parts

    def _vault_host(self, data: bytes) -> bool:
        """Whether a credential is a token of Vault.

        :raises DeniedError: of a host that is not trusted.
        """
        try:
            url = msgspec.json.decode(data, type=dict[str, object]).get("vault_url")
        except msgspec.DecodeError:
            return False
        if not isinstance(url, str):
            return False
        trusted = self._settings.vault_hosts
        if trusted and (urlsplit(url).hostname or "").lower() not in trusted:
            raise DeniedError(
                "Credential requires interacting with an untrusted host",
                hint="TRUSTED_VAULT_HOSTS names those that are",
            )
        return True

    def _store(self) -> CredentialStore:
        if self._files is None:
            raise UsageError(
                "Operation failed because of a configuration error",
                hint="SEC_CREDENTIAL_DIRECTORY_OAUTH of the access point names no directory for credentials",
            )
        return self._files

    def _lock(self, folder: str) -> asyncio.Lock:
        return self._locks.setdefault(folder, asyncio.Lock())

    async def _in_thread(self, function: Callable[..., _T], *args: object) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args))
        except OSError as error:
            raise HostError(
                f"credentials cannot be kept: {error.strerror} ({error.filename})", hint="see the schedd's log"
            ) from None


def _of(name: CredentialName, files: dict[str, float]) -> dict[str, float]:
    return {file: at for file, at in files.items() if file in (f"{name.stem}{TOP}", f"{name.stem}{USE}")}


def _with_request(data: bytes, request: CredentialRequest) -> bytes:
    """A credential with the scopes and the audience that it is stored for.

    :raises UsageError: when it is not JSON.
    """
    try:
        said = msgspec.json.decode(data, type=dict[str, object])
    except msgspec.DecodeError:
        raise UsageError("Failure parsing credential as JSON", hint="scopes and audience are written into it") from None
    wanted = {"scopes": request.scopes, "audience": request.audience}
    return json.dumps({**said, **{key: value for key, value in wanted.items() if value}}).encode()

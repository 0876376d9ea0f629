"""A request to the API with what it may do, and how lists of ads are answered."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slotwise.classad import ClassAd, ExprTree
from slotwise.client.call import JsonPage
from slotwise.errors import AdSyntaxError, UnauthenticatedError, UsageError
from slotwise.model.words import truth
from slotwise.table import AdTable
from slotwise.web.access import Access
from slotwise.web.bounds import Held, ServiceBounds
from slotwise.web.exposition import Scraper
from slotwise.web.pool_client import PoolClient
from slotwise.web.sessions import Sessions
from slotwise.web.trend import Trend

#: Ads of one answer, unless the request says otherwise, and at most.
LIMIT, LIMIT_MOST = 1000, 100_000
#: Bytes of a request's body.
_BODY_MOST = 4 * 1024 * 1024
#: Bytes of memory that a byte of JSON may become.
_PARSED = 16
Client = TypeVar("Client")
#: One `=` where an operator is expected.
_ASSIGNS = re.compile(r"[^=!<>?]=[^=!?]")


class Asked(Struct, frozen=True):
    """A request with what it may do."""

    request: Request
    access: Access
    pool: PoolClient
    scraper: Scraper
    sessions: Sessions
    bounds: ServiceBounds
    trend: Trend
    #: What it holds of the service's memory.
    memory: Held
    #: Closed when the answer has been sent, or is not wanted any more.
    held: AsyncExitStack

    def words(self, name: str) -> list[str]:
        """A parameter that is a list."""
        return [word.strip() for word in self.request.query_params.get(name, "").split(",") if word.strip()]

    def text(self, name: str) -> str:
        """A parameter, empty without it."""
        return self.request.query_params.get(name, "")

    def flag(self, name: str) -> bool:
        """Whether a parameter is there that says yes."""
        return truth(self.text(name)) is True

    def constraint(self) -> str:
        """The constraint; of several, that all of them are true.

        :raises UsageError: for one that is no expression, with its place, before anything is put around it.
        """
        given = [text for text in self.request.query_params.getlist("constraint") if text.strip()]
        for text in given:
            try:
                ExprTree(text)
            except AdSyntaxError as error:
                if _ASSIGNS.search(text):
                    raise UsageError(f"the condition {text[:200]!r}: {error.message}", hint="`==` compares") from None
                raise
        return given[0] if len(given) == 1 else " && ".join(f"({text})" for text in given)

    def limit(self) -> int:
        """The number of ads that are wanted.

        :raises UsageError: when it is not a number in range.
        """
        said = self.text("limit")
        if not said:
            return LIMIT
        if not said.isascii() or not said.isdigit() or not 0 < int(said[:9]) <= LIMIT_MOST:
            raise UsageError(f"limit={said[:20]} is not a number from 1 to {LIMIT_MOST}")
        return int(said)

    @property
    def schedd(self) -> str | None:
        """The access point that is meant; None: this host's."""
        return self.text("schedd") or None

    @property
    def mine(self) -> bool:
        """Whether the caller's own are meant alone.

        :raises UnauthenticatedError: when nobody has signed in.
        """
        mine = self.flag("mine")
        if mine and not self.access.signed_in:
            raise UnauthenticatedError("only who shows a token has jobs here", hint="leave mine out for everybody's")
        return mine

    async def body(self) -> dict[str, object]:
        """The JSON object of the request.

        :raises UsageError: when there is none.
        :raises BusyError: when the caller's requests hold as much as they may.
        """
        said = self.request.headers.get("content-length", "0")
        if said.isascii() and said.isdigit() and (len(said) > 12 or int(said) > _BODY_MOST):
            raise UsageError(f"the request is larger than {_BODY_MOST} bytes")
        size, pieces = 0, []
        async for piece in self.request.stream():
            size += len(piece)
            if size > _BODY_MOST:
                raise UsageError(f"the request is larger than {_BODY_MOST} bytes")
            self.memory.take(_PARSED * len(piece))
            pieces.append(piece)
        try:
            found = json.loads(b"".join(pieces))
            json.dumps(found, ensure_ascii=False).encode()  # half a pair of surrogates is no text that can be sent on
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the request is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise UsageError("the request is not a JSON object")
        return found


Handler = Callable[[Asked], Awaitable[Response]]


def ads_response(ads: Sequence[ClassAd]) -> Response:
    """A list of ads."""
    return Response(AdTable.of(ads).json_text(None, None), media_type="application/json")


async def streamed(
    asked: Asked,
    opened: AbstractAsyncContextManager[Client],
    pieces: Callable[[Client], AsyncIterator[bytes]],
) -> Response:
    """A list that a daemon writes piece by piece, each when the caller has taken the one before: however long the list,
    the service keeps no more of it than that.

    :raises BusyError: when the caller reads as many long lists as one may.
    """
    if asked.limit() > LIMIT:
        asked.held.enter_context(asked.bounds.lists.one(asked.access.caller))
    written = pieces(await asked.held.enter_async_context(opened))
    # What is wrong with the request, or its token, is said before the answer begins.
    first = await anext(written, b"[]")

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for piece in written:
            yield piece

    return StreamingResponse(rest(), media_type="application/json")


class Releasing(Response):
    """A response that gives back what it holds once it is sent, also when nothing of it was read."""

    def __init__(self, response: Response, held: AsyncExitStack) -> None:
        super().__init__()
        self._response = response
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            await self._held.aclose()


def paged(asked: Asked, page: JsonPage) -> Response:
    """A page of a list, with a link to the next one (RFC 8288)."""
    response = Response(page.text, media_type="application/json")
    if page.next:
        words = [(name, text) for name, text in asked.request.query_params.multi_items() if name != "after"]
        words.append(("after", page.next))
        response.headers["link"] = f'<{asked.request.url.path}?{urlencode(words)}>; rel="next"'
    return response

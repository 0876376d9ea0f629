"""The matches of a cycle for one access point, cut into messages of bounded size and put together again. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from slotwise.errors import UsageError
from slotwise.wire.gen.schedd_pb2 import ExcessClaims, MatchBatch, SubmitterMatches
from slotwise.wire.sizes import PIECE


def cut(batch: MatchBatch, most: int = PIECE) -> Iterator[MatchBatch]:
    """Messages of about ``most`` bytes that together say what ``batch`` says, in the same order."""
    number = 0
    waiting: MatchBatch | None = None
    piece = _begin(batch, number)
    size = 0
    for add, weight in _things(batch):
        if size >= most:
            piece.more_follows = True
            if waiting is not None:
                yield waiting
            waiting, number, size = piece, number + 1, 0
            piece = _begin(batch, number)
        add(piece)
        size += weight
    if waiting is not None:
        yield waiting
    yield piece


def _begin(batch: MatchBatch, number: int) -> MatchBatch:
    return MatchBatch(
        cycle=batch.cycle, negotiator_name=batch.negotiator_name, excess_lasts_s=batch.excess_lasts_s, piece=number
    )


class _Add:
    """Adds one thing to a piece: a match, a rejection, or some slots of an excess."""

    def __init__(self, owner: SubmitterMatches | ExcessClaims, first: bool, **what: object) -> None:
        self._owner = owner
        self._first = first
        self._what = what

    def __call__(self, piece: MatchBatch) -> None:
        if isinstance(self._owner, ExcessClaims):
            if self._first or not piece.excess:
                own = self._owner
                piece.excess.add(
                    submitter=own.submitter, keep=own.keep, until=own.until, reason=own.reason, goes_on=not self._first
                )
            piece.excess[-1].slot_names.extend(self._what["slots"])  # type: ignore[arg-type]
            piece.excess[-1].weights.extend(self._what["weights"])  # type: ignore[arg-type]
            return
        if self._first or not piece.submitters:
            piece.submitters.add(submitter=self._owner.submitter, goes_on=not self._first)
        for name, value in self._what.items():
            getattr(piece.submitters[-1], name).append(value)


_SLOTS = 1000


def _things(batch: MatchBatch) -> Iterator[tuple[_Add, int]]:
    for group in batch.submitters:
        yield _Add(group, True), len(group.submitter) + 16
        for match in group.matches:
            yield _Add(group, False, matches=match), len(match.slot_ad) + len(match.claim_id) + 512
        for rejection in group.rejections:
            yield _Add(group, False, rejections=rejection), len(rejection.reason) + 32
    for claims in batch.excess:
        yield _Add(claims, True, slots=(), weights=()), len(claims.reason) + 64
        for at in range(0, len(claims.slot_names), _SLOTS):
            names = claims.slot_names[at : at + _SLOTS]
            yield (
                _Add(claims, False, slots=names, weights=claims.weights[at : at + _SLOTS]),
                sum(map(len, names)) + 16 * len(names),
            )


class MatchPieces:
    """Puts the pieces of each negotiator's batches together."""

    def __init__(self) -> None:
        self._begun: dict[str, MatchBatch] = {}

    def take(self, piece: MatchBatch) -> MatchBatch | None:
        """The whole batch once its last piece came, until then None.

        :raises UsageError: for a piece that follows no piece before it; the batch is then forgotten.
        """
        name = piece.negotiator_name
        begun = self._begun.pop(name, None)
        if piece.piece == 0:
            begun = piece
        elif begun is None or begun.cycle != piece.cycle or piece.piece != begun.piece + 1:
            raise UsageError(f"piece {piece.piece} of the matches of cycle {piece.cycle} follows no piece before it")
        else:
            _join(begun, piece)
        if not piece.more_follows:
            return begun
        self._begun[name] = begun
        return None


def _join(begun: MatchBatch, piece: MatchBatch) -> None:
    begun.piece = piece.piece
    for group in piece.submitters:
        if group.goes_on and begun.submitters:
            begun.submitters[-1].matches.extend(group.matches)
            begun.submitters[-1].rejections.extend(group.rejections)
        else:
            begun.submitters.append(group)
    for claims in piece.excess:
        if claims.goes_on and begun.excess:
            begun.excess[-1].slot_names.extend(claims.slot_names)
            begun.excess[-1].weights.extend(claims.weights)
        else:
            begun.excess.append(claims)

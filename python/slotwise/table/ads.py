"""A table of ads: keyed, in typed columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, ParamSpec, Protocol, TypeVar

from slotwise import _native
from slotwise.errors import BusyError
from slotwise.table.allowance import Allowance, own_question_most, question_most

if TYPE_CHECKING:
    import polars

    from slotwise._native import ClauseCount
    from slotwise.classad import ClassAd, ExprTree
    from slotwise.classad.values import Value
    from slotwise.table.order import Order

T = TypeVar("T")
P = ParamSpec("P")
#: The forms of rows: a pack without or with keys, ``Name = value`` lines, JSON objects.
Form = Literal["pack", "keyed", "long", "json"]


class ApplyReport(Protocol):
    """What a pack did to a table."""

    #: Ads that are new.
    inserted: int
    #: Ads replaced or changed.
    updated: int
    #: Ads removed.
    removed: int
    #: Keys of the first hundred new and removed ads, if receipt is stamped.
    new_keys: list[str]
    removed_keys: list[str]
    #: Keys of deltas that found no ad: the sender must send the whole ad.
    unknown: list[str]
    #: (key, reason) of ads that were refused.
    refused: list[tuple[str, str]]
    #: Version of the sender's table after this pack (0 if the sender has no table).
    to_version: int
    #: Whether the pack replaced everything.
    reset: bool


def _asked(
    constraint: ExprTree | str | None,
    projection: Sequence[str] | None,
    limit: int | None,
    target: ClassAd | None,
    now: int,
    rows: tuple[int, int] | None = None,
    *,
    alone: bool = False,
) -> dict[str, object]:
    return {
        "constraint": constraint,
        "projection": None if projection is None else list(projection),
        "limit": limit,
        "target": target,
        "now": now,
        "rows": rows,
        "alone": alone,
    }


def _bounded(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The answer to a query of a table; it is refused if its expressions take too much work."""
    if (most := own_question_most()) is None:
        return work(*arguments, **named)
    with Allowance(most) as allowance:
        answer = work(*arguments, **named)
    if allowance.exhausted:
        raise too_much(most)
    return answer


def too_much(most: int) -> BusyError:
    return BusyError(
        f"the expressions that were asked about took more than {most} steps",
        hint="ask for fewer ads, or about less of them",
    )


#: Steps of one slice of a query (some milliseconds of work), rows of the first slice, and seconds to aim for.
SLICE_STEPS, _SLICE_ROWS, _SLICE_S = 250_000, 250, 0.01


class AdTable:
    """Ads by key. Safe to use from several threads; long work runs without the interpreter lock.

    A *constraint* is an expression or its text (None or empty: every ad), evaluated with the ad as MY and *target*
    as TARGET; an ad counts when it gives true. A *projection* lists the attributes wanted (None: all); ads have those,
    too, that the expressions among them read, so that they can be evaluated, unless they are wanted *alone*. ``now`` is
    the time for expressions that read it, in seconds since the epoch. In a daemon, a query whose expressions take too
    much work is refused (BusyError).
    """

    __slots__ = ("native",)

    def __init__(self) -> None:
        #: The native table, for other native code.
        self.native = _native.AdTable()

    @classmethod
    def of(cls, ads: Iterable[ClassAd]) -> AdTable:
        """A table of ads in their order, under keys without a meaning."""
        table = cls()
        for place, ad in enumerate(ads):
            table.upsert(f"{place:09d}", ad)
        return table

    def __len__(self) -> int:
        return len(self.native)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.native

    def __repr__(self) -> str:
        return f"<AdTable of {len(self)} ads, version {self.version}>"

    @property
    def version(self) -> int:
        """A counter of changes, which each change of an ad increases."""
        return self.native.version

    @property
    def memory_bytes(self) -> int:
        """Bytes that the table holds."""
        return self.native.memory_bytes

    def keys(self) -> list[str]:
        """The keys, in the order of the rows."""
        return self.native.keys()

    def attributes(self) -> list[str]:
        """The attribute names in use, as first spelled."""
        return self.native.attributes()

    # ---- one ad

    def upsert(self, key: str, ad: ClassAd | Mapping[str, Value], received_at: float = 0.0) -> None:
        """Makes *ad* the ad of *key*. *received_at* (seconds) is what :meth:`expire` looks at."""
        self.native.upsert(key, ad, received_at)

    def update(
        self,
        key: str,
        delta: ClassAd | Mapping[str, Value],
        removed: Sequence[str] = (),
        received_at: float = 0.0,
    ) -> bool:
        """Sets the attributes of *delta* and removes *removed*. False if there is no such ad."""
        return self.native.update(key, delta, list(removed), received_at)

    def remove(self, key: str) -> bool:
        """Removes an ad. False if there is none."""
        return self.native.remove(key)

    def clear(self) -> None:
        """Removes every ad."""
        self.native.clear()

    def get(self, key: str) -> ClassAd | None:
        """The ad of *key*, attributes in the order of the table's columns."""
        return self.native.get(key)

    def value(self, key: str, name: str) -> Value:
        """One attribute of one ad, evaluated. KeyError without the ad, UNDEFINED without the attribute."""
        return self.native.value(key, name)

    def bytes_of(self, key: str) -> int:
        """How many bytes the ad takes as a pack of its own; about nothing without one."""
        return len(self.native.pack_keys([key]))

    def excerpt(self, keys: Sequence[str]) -> AdTable:
        """A table of the ads of *keys* alone, in the order of these; those that there are."""
        found = AdTable()
        found.apply(self.native.pack_keys(list(keys)))
        return found

    def values_of(self, keys: Sequence[str], names: Sequence[str]) -> list[list[Value]]:
        """A list for each attribute among *names*: its value for each key, evaluated; UNDEFINED without the ad."""
        return self.native.values_of(list(keys), list(names))

    def received_at(self, key: str) -> float | None:
        """When the ad was last received, as the caller said then."""
        return self.native.received_at(key)

    # ---- many ads

    def apply(
        self, pack: bytes, received_at: float = 0.0, *, stamp: str | None = None, counts: bool = False
    ) -> ApplyReport:
        """Applies a pack. *stamp* names an integer attribute set to *received_at* in each ad touched; with *counts*
        its UpdatesTotal, UpdatesSequenced, UpdatesLost and UpdatesHistory are kept as well.

        :raises AdBatchError: the bytes are not a pack; what precedes the fault is applied.
        """
        return self.native.apply(pack, received_at, stamp, counts)

    def insert_from_template(
        self,
        template: ClassAd,
        keys: Sequence[str],
        deltas: bytes | Sequence[ClassAd] | None = None,
        *,
        columns: Mapping[str, Iterable[Value]] | None = None,
        received_at: float = 0.0,
    ) -> None:
        """Makes an ad for each key: the template, then its delta (a pack in the order of the keys, or ads), then
        one value of each of *columns*. Far cheaper than one ad after the other.

        :raises AdBatchError: the pack does not have as many deltas as there are keys; nothing is inserted.
        :raises ValueError: there are not as many deltas or values as keys.
        """
        self.native.insert_from_template(template, list(keys), deltas, dict(columns) if columns else None, received_at)

    def load_text(
        self, text: bytes, *, key: str = "Name", lenient: bool = False, received_at: float = 0.0
    ) -> LoadReport:
        """Reads ads from ``Name = expression`` lines (what ``status -long`` and ``q -long`` print).

        *key* is the attribute that names an ad, or ``"job"`` for ClusterId.ProcId, or ``"number"``. A *lenient*
        reading ends an ad at a bad line instead of refusing the text.

        :raises AdSyntaxError: a line is not an attribute.
        """
        return self.native.load_text(text, key, lenient, received_at)

    def text_loader(self, *, key: str = "Name", lenient: bool = False, received_at: float = 0.0) -> TextLoader:
        """As :meth:`load_text`, for text that comes in pieces."""
        return self.native.text_loader(key, lenient, received_at)

    def expire(self, now: float, default_lifetime_s: float = 900.0, lifetime: str = "ClassAdLifetime") -> list[str]:
        """Removes ads not received in their lifetime (the attribute, else the default); returns their keys."""
        return self.native.expire(now, default_lifetime_s, lifetime)

    def remove_where(
        self, constraint: ExprTree | str | None, *, target: ClassAd | None = None, now: int = 0
    ) -> list[str]:
        """Removes the ads for which *constraint* is true; returns their keys."""
        return _bounded(self.native.remove_where, _asked(constraint, None, None, target, now))

    def changes_since(self, version: int) -> bytes:
        """A pack that brings a mirror of this table from *version* to the present (0: from nothing)."""
        return self.native.changes_since(version)

    # ---- queries

    def query(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
        form: Form = "pack",
        alone: bool = False,
    ) -> bytes:
        """The matching ads, in one piece."""
        return _bounded(self.native.select, _asked(constraint, projection, limit, target, now, alone=alone), form)

    def query_chunks(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
        form: Form = "pack",
        chunk_rows: int = 1000,
    ) -> AdChunks:
        """The matching ads in pieces, each made on demand; ``total`` says how many ads there are.

        Pieces of form ``json`` are objects separated by commas: the caller adds brackets, and commas between pieces.
        """
        asked = _asked(constraint, projection, limit, target, now)
        return _bounded(self.native.select_chunks, asked, form, chunk_rows)

    def query_keys(
        self,
        constraint: ExprTree | str | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
    ) -> list[str]:
        """The keys of the ads for which *constraint* is true."""
        return _bounded(self.native.select_keys, _asked(constraint, None, limit, target, now))

    def other_keys(self, steps: int, constraint: str, *, now: int = 0) -> list[str]:
        """The keys of the ads for which *constraint* is anything but true, in at most so many steps for all of them.

        They include ads that the steps do not suffice for.
        """
        with Allowance(steps):
            return self.native.select_other_keys(_asked(constraint, None, None, None, now))

    def count(self, constraint: ExprTree | str | None = None, *, target: ClassAd | None = None, now: int = 0) -> int:
        """The number of ads for which *constraint* is true."""
        return _bounded(self.native.count, _asked(constraint, None, None, target, now))

    def count_by(
        self,
        names: Sequence[str],
        constraint: ExprTree | str | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
    ) -> list[tuple[Value, ...]]:
        """The tuples of values of *names* (attributes or expressions), each with the number of ads that have them."""
        asked = _asked(constraint, None, None, target, now)
        return _bounded(self.native.count_by, list(names), asked)

    # ---- queries in slices

    def keys_in_slices(
        self, constraint: ExprTree | str | None = None, limit: int | None = None, *, now: int = 0
    ) -> Iterator[list[str]]:
        """As :meth:`query_keys`, in slices: each takes a bounded time, and yields the keys that it found, maybe none.

        Ads that come or go between two slices may or may not be among the answers.
        """

        def ask(rows: tuple[int, int], left: int | None) -> tuple[list[str], int]:
            found = self.native.select_keys(_asked(constraint, None, left, None, now, rows))
            return found, len(found)

        return self._slices(ask, [], limit)

    def firsts_in_slices(
        self,
        order: Order,
        limit: int,
        constraint: ExprTree | str | None = None,
        *,
        now: int = 0,
    ) -> Iterator[list[tuple[bytes, str]]]:
        """The places and keys of the ads that come first, in slices, each of at most ``limit`` ads.

        Of two ads, whatever their slices, the one with the lesser place comes first.
        """

        def ask(rows: tuple[int, int], _: int | None) -> tuple[list[tuple[bytes, str]], int]:
            asked = _asked(constraint, None, limit, None, now, rows)
            return self.native.select_firsts(order.by, order.descending, order.after, asked), 0

        return self._slices(ask, [], None)

    def counts_in_slices(self, constraint: ExprTree | str | None = None, *, now: int = 0) -> Iterator[int]:
        """As :meth:`count`, in slices."""
        return self._slices(
            lambda rows, _: (self.native.count(_asked(constraint, None, None, None, now, rows)), 0), 0, None
        )

    def counts_by_in_slices(
        self, names: Sequence[str], constraint: ExprTree | str | None = None, *, now: int = 0
    ) -> Iterator[list[tuple[Value, ...]]]:
        """As :meth:`count_by`, in slices, each of which counts separately."""
        wanted = list(names)
        return self._slices(
            lambda rows, _: (self.native.count_by(wanted, _asked(constraint, None, None, None, now, rows)), 0), [], None
        )

    def chunks_in_slices(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        now: int = 0,
        form: Form = "pack",
        chunk_rows: int = 1000,
        alone: bool = False,
    ) -> Iterator[AdChunks | None]:
        """As :meth:`query_chunks`, in slices, each with pieces of its own."""

        def ask(rows: tuple[int, int], left: int | None) -> tuple[AdChunks, int]:
            asked = _asked(constraint, projection, left, None, now, rows, alone=alone)
            found = self.native.select_chunks(asked, form, chunk_rows)
            return found, found.total

        return self._slices(ask, None, limit)

    def _slices(
        self,
        ask: Callable[[tuple[int, int], int | None], tuple[T, int]],
        nothing: T,
        limit: int | None,
    ) -> Iterator[T]:
        """Query rows piece by piece; yields ``nothing`` for a piece that took too long and is queried again in parts.

        :param ask: returns the answer for some rows, of at most so many ads, and how many of these it has.
        :raises BusyError: all pieces together take more than a query may.
        """
        most, first, size, used = question_most(len(self)), 0, _SLICE_ROWS, 0
        pace = _Pace()
        while first < (end := self.native.row_end) and limit != 0:
            last = min(first + size, end)
            began = time.thread_time()
            with Allowance(SLICE_STEPS if most is not None else 1 << 60) as allowance:
                answer, found = ask((first, last), limit)
            took = time.thread_time() - began
            used += allowance.used
            if most is not None and used > most:
                raise too_much(most)
            if allowance.exhausted:
                if size == 1:
                    raise too_much(SLICE_STEPS)
                size = max(1, min(size, last - first) // 8)
                yield nothing
                continue
            # A cheap query is not cut into more pieces than needed. Some functions take long for their steps.
            steps = SLICE_STEPS / 2 / max(1, allowance.used)
            by_time = max(pace.rows_after(last - first, took), _SLICE_ROWS, end // 256)
            first, size = last, max(1, min(by_time, int((last - first) * min(16.0, steps))))
            limit = None if limit is None else limit - found
            yield answer

    def signatures(self, keys: Sequence[str], names: Sequence[str]) -> tuple[list[int | None], list[str], list[str]]:
        """Which of the ads are alike in the unevaluated values of *names*: for each key a number (None without an ad),
        for each number the text of the values, and the attributes that expressions among them look up in their ad."""
        found = self.native.signatures(list(keys), list(names))
        return found

    def values(
        self,
        names: Sequence[str],
        constraint: ExprTree | str | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
    ) -> list[list[Value]]:
        """A list for each of *names* (attributes or expressions): its value for each ad, evaluated.

        Equal values are one Python object.
        """
        asked = _asked(constraint, None, limit, target, now)
        return _bounded(self.native.values, list(names), asked)

    def clause_counts(self, job: ClassAd, now: int = 0) -> list[ClauseCount]:
        """The clauses of a job's Requirements over the ads.

        *passes* ads satisfy it, *without* satisfy all others. *hint*, of a clause that keeps the job from all ads and
        compares an attribute with a constant: the nearest values (see ``slotwise.matchmaking.hints``), else None.
        """
        return self.native.clause_counts(job, now)

    def long_text(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
    ) -> bytes:
        """The ads as ``Name = value`` lines in the order of names, a blank line after each; a projection is taken
        alone."""
        return self.query(constraint, projection, limit, target=target, now=now, form="long", alone=True)

    def json_text(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
    ) -> bytes:
        """The ads as one JSON array of objects; a projection is taken alone."""
        text = self.query(constraint, projection, limit, target=target, now=now, form="json", alone=True)
        return b"[" + text + b"]\n"

    # ---- data frames

    def arrow(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
        evaluate: bool = True,
    ) -> ArrowStream:
        """The matching ads as an Arrow stream: pyarrow, polars and others read it without a copy per cell.

        A column has the narrowest type that holds its values (boolean, int64, float64, dictionary of strings);
        where types are mixed it is text. Missing, undefined and error are nulls. Attributes that are expressions
        are evaluated, or given as text with ``evaluate=False``.
        """
        return ArrowStream(self.native.arrow(_asked(constraint, projection, limit, target, now), evaluate))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def to_polars(
        self,
        constraint: ExprTree | str | None = None,
        projection: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        target: ClassAd | None = None,
        now: int = 0,
        evaluate: bool = True,
        texts: bool = False,
    ) -> polars.DataFrame:
        """The matching ads as a polars frame (needs the extra ``analysis``); types as in :meth:`arrow`.

        With *texts*, attributes that no ad alone gives a value, as Requirements mostly, are texts.
        """
        import polars

        stream = self.arrow(constraint, projection, limit, target=target, now=now, evaluate=evaluate)
        frame = polars.DataFrame(stream)
        valueless = [name for name, kind in frame.schema.items() if kind == polars.Null]
        if not texts or not valueless:
            return frame
        stream = self.arrow(constraint, valueless, limit, target=target, now=now, evaluate=False)
        return frame.with_columns(polars.DataFrame(stream))


class _Pace:
    """How many rows the next slice has, by the time that those before it took.

    A part of the time may be spent on every slice, however small: lists that are followed row by row, as those of GPUs,
    are looked at as a whole. Slices take as long as they are meant to, or a few times that part, if it is more:
    smaller ones would spend most of their time on it, again and again.
    """

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None
        self._fixed_s = 0.0

    def rows_after(self, rows: int, took_s: float) -> int:
        """The rows of the slice after one of ``rows`` that took so long."""
        before, self._before = self._before, (rows, took_s)
        if before is None:
            # Another size tells which part of the time belongs to the rows.
            return int(rows * min(16.0, max(2.0, _SLICE_S / max(1e-6, took_s))))
        if rows != before[0]:
            each_s = max(0.0, (took_s - before[1]) / (rows - before[0]))
            self._fixed_s = max(0.0, took_s - each_s * rows)
        # The part that is spent on every slice does not grow with its rows.
        aim_s = max(_SLICE_S, 4 * self._fixed_s) - self._fixed_s
        return int(rows * min(16.0, aim_s / max(1e-6, took_s - self._fixed_s)))


class ArrowStream:
    """Rows as an Arrow stream, which can be read once."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The capsule of the Arrow PyCapsule interface. A requested schema is ignored."""
        return self._capsule


class LoadReport(Protocol):
    """The contents of a text."""

    #: Ads read.
    ads: int
    #: Lines read.
    lines: int
    #: Ads that were skipped, because they lack the key attribute.
    keyless: int
    #: Bad lines that were skipped (lenient reading only).
    bad_lines: int


class TextLoader(Protocol):
    """Reads ads from text that comes in pieces; a line may continue in the next piece."""

    def feed(self, text: bytes) -> None:
        """Reads a piece."""

    def finish(self) -> LoadReport:
        """Ends the text."""


class AdChunks(Protocol):
    """The pieces of an answer. ``total``: the number of ads in all."""

    total: int

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...

"""Where `status` finds ads: the collector, a startd that is asked directly, or a file; in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.render import pool
from slotwise.cli.render.ads import (
    chosen,
    json_array,
    json_lines,
    long_text,
    new_text,
    read_stream,
    spread,
    xml_text,
)
from slotwise.cli.render.layout import sort_key
from slotwise.cli.render.output_format import Form
from slotwise.errors import UsageError
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, startd_pb2_grpc

_OF_STARTDS = ("Machine", "StartDaemon")


class PoolAds:
    """The ads that the options select."""

    def __init__(self, parsed: Parsed, query: common_pb2.AdQuery, inv: Invocation) -> None:
        self._query = query
        self._inv = inv
        self._file = parsed.value("ads")
        self._direct = parsed.value("direct")
        self._sort = [one.values[0] for one in (*parsed.all("sort"), *parsed.all("group-by"))]
        self._target = parsed.value("target")
        # HTCondor's tool asks the collector then, which has what was advertised.
        if not inv.called and not self._direct and (parsed.has("snapshot") or parsed.has("statistics")):
            raise UsageError("-snapshot and -statistics ask a startd", hint="give -direct HOST too")
        if self._direct and query.kind not in _OF_STARTDS:
            raise UsageError(
                f"-direct asks a startd, which has no ads of the kind {query.kind}", hint="ask the collector for them"
            )

    def _chunks(
        self, form: common_pb2.AdQuery.Form, projection: Sequence[str] | None, *, everything: bool = False
    ) -> Iterator[common_pb2.AdChunk]:
        """The daemon's answer."""
        query = common_pb2.AdQuery()
        query.CopyFrom(self._query)
        query.form = form
        query.alone = form != common_pb2.AdQuery.PACK  # printed as it comes
        query.projection[:] = projection or ()
        if everything or self._sort:
            query.limit = 0
        if everything:
            query.constraint = ""
        if self._direct:
            aimed = self._inv if self._direct in ("localhost", "-") else self._inv.aimed(None, self._direct)
            startd = aimed.stub(startd_pb2_grpc.StartdStub, "startd")
            return iter(startd.Query(query))
        collector = self._inv.reading(collector_pb2_grpc.CollectorStub, "collector")
        return iter(collector.Query(query))

    def ads(self, projection: Sequence[str] | None) -> list[ClassAd]:
        """The ads, in order: by the expressions of ``-sort``, else by machine and slot number."""
        if self._sort:
            projection = None
        if self._file is not None:
            limit = None if self._sort else self._query.limit or None
            found = self._chosen(read_stream(self._file, self._inv), limit)
        elif self._target is not None:
            found = self._chosen(self._unpacked(None, everything=True), self._query.limit or None)
        else:
            found = self._unpacked(projection)
        found.sort(key=pool.natural_key)
        if self._sort:
            trees = [ExprTree(text, old=True) for text in self._sort]
            found.sort(key=lambda ad: tuple(sort_key(tree.eval(ad)) for tree in trees))
            return found[: self._query.limit] if self._query.limit else found
        return found

    def _unpacked(self, projection: Sequence[str] | None, *, everything: bool = False) -> list[ClassAd]:
        found: list[ClassAd] = []
        for chunk in self._chunks(common_pb2.AdQuery.PACK, projection, everything=everything):
            if chunk.data:
                found += unpack_ads(chunk.data)
        return found

    def _chosen(self, ads: Iterable[ClassAd], limit: int | None) -> list[ClassAd]:
        if self._target is None:
            return chosen(ads, self._query.constraint, limit)
        target = next(iter(read_stream(self._target, self._inv)), ClassAd())
        return unpack_ads(AdTable.of(ads).query(self._query.constraint or None, None, limit, target=target))

    @staticmethod
    def key_of(ad: ClassAd, keys: Sequence[str]) -> tuple[tuple[int, float, str], ...]:
        """What makes an ad the same as another."""
        return tuple(sort_key(ExprTree(text, old=True).eval(ad)) for text in keys)

    def whole(self, form: Form) -> None:
        """Print whole ads: straight from the collector's text unless an order is asked for."""
        names = list(form.attributes) or None
        out = self._inv.stdout
        if self._file is None and not self._sort and self._target is None and form.kind in ("long", "json"):
            wanted = common_pb2.AdQuery.LONG if form.kind == "long" else common_pb2.AdQuery.JSON
            if self._inv.called and form.kind == "json":
                text = b"".join(chunk.data for chunk in self._chunks(wanted, names)).decode(errors="surrogateescape")
                out.write(spread(text))
                return
            for chunk in self._chunks(wanted, names):
                if chunk.data:
                    out.write(chunk.data.decode(errors="surrogateescape"))
            return
        ads = self.ads(None)
        if form.kind == "long":
            out.write(long_text(ads, names))
        elif form.kind == "xml":
            text = xml_text(ads, names)
            # HTCondor's tool puts a blank line behind each ad.
            out.write(text.replace("</c>\n", "</c>\n\n") if self._inv.called else text)
        else:
            array = json_array(ads, names)
            if form.kind == "json":
                out.write(spread(array) if self._inv.called else array)
            else:
                out.write(new_text(ads, names) if form.kind == "new" else json_lines(array))

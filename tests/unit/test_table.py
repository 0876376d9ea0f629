"""Tables of ads from Python: batches, questions, listings, templates."""

from __future__ import annotations

import json

import pytest
from slotwise.classad import UNDEFINED, ClassAd, ExprTree, define_user_map
from slotwise.errors import AdBatchError, AdSyntaxError
from slotwise.table import (
    AdTable,
    PackBuilder,
    diff_ads,
    limit_evaluations,
    pack_ads,
    pack_keys,
    unpack_ads,
    unpack_ops,
)


def slot(number: int) -> ClassAd:
    ad = ClassAd({"Name": f"slot{number}@host", "Cpus": number % 3, "Memory": 1024 * number, "OpSys": "LINUX"})
    ad["Start"] = ExprTree("TARGET.RequestMemory <= MY.Memory")
    return ad


@pytest.fixture
def table() -> AdTable:
    made = AdTable()
    for number in range(10):
        made.upsert(f"slot{number}", slot(number), 100.0)
    return made


def test_an_ad_comes_back_as_it_was(table: AdTable) -> None:
    assert table.get("slot4") == slot(4)
    assert table.get("none") is None
    assert len(table) == 10 and "slot4" in table and "none" not in table
    assert table.keys() == [f"slot{number}" for number in range(10)]


def test_deltas_change_single_attributes(table: AdTable) -> None:
    before = table.version
    assert table.update("slot4", {"Memory": 1}, removed=["OpSys"])
    assert not table.update("none", {"Memory": 1})
    assert table.version > before
    assert table.value("slot4", "Memory") == 1
    assert table.value("slot4", "OpSys") is UNDEFINED
    with pytest.raises(KeyError):
        table.value("none", "Memory")


def test_packs_carry_ads_and_keys(table: AdTable) -> None:
    pack = pack_ads([slot(1), slot(2)], keys=["a", "b"])
    assert unpack_ads(pack) == [slot(1), slot(2)]
    report = table.apply(pack, 500.0, stamp="LastHeardFrom")
    assert (report.inserted, report.updated, report.unknown) == (2, 0, [])
    assert table.value("a", "LastHeardFrom") == 500
    assert table.received_at("a") == 500.0


def test_a_delta_without_base_is_reported(table: AdTable) -> None:
    builder = PackBuilder()
    builder.update("slot1", {"Memory": 7})
    builder.update("nobody", {"Memory": 7})
    builder.remove("slot2")
    assert len(builder) == 3
    report = table.apply(builder.finish())
    assert (report.updated, report.removed, report.unknown) == (1, 1, ["nobody"])
    assert table.value("slot1", "Memory") == 7


def test_update_from_sends_only_what_differs() -> None:
    old, new = slot(1), slot(1)
    builder = PackBuilder()
    assert not builder.update_from("k", old, new)
    new["Memory"] = 9
    del new["OpSys"]
    assert builder.update_from("k", old, new)
    ((kind, key, ad, removed),) = unpack_ops(builder.finish())
    assert (kind, key, removed) == ("delta", "k", ["OpSys"])
    assert ad == ClassAd({"Memory": 9})
    assert diff_ads(old, new) == (ad, removed)


def test_broken_bytes_are_refused(table: AdTable) -> None:
    with pytest.raises(AdBatchError, match="no batch header"):
        table.apply(b"nonsense")
    with pytest.raises(AdBatchError):
        unpack_ads(pack_ads([slot(1)])[:-3])
    with pytest.raises(AdBatchError, match="newer"):
        unpack_ads(b"SWP\x09\x00\x00\x00")


def test_a_bad_expression_refuses_its_ad_only(table: AdTable) -> None:
    pack = pack_ads([ClassAd({"A": ExprTree("xx + yy")}), slot(3)], keys=["bad", "good"])
    report = table.apply(pack.replace(b"xx + yy", b"xx + +("))
    assert [key for key, _ in report.refused] == ["bad"]
    assert "good" in table and "bad" not in table


def test_a_mirror_follows(table: AdTable) -> None:
    mirror = AdTable()
    seen = mirror.apply(table.changes_since(0)).to_version
    table.update("slot3", {"Memory": 1})
    table.remove("slot5")
    table.upsert("new", slot(77))
    pack = table.changes_since(seen)
    assert {op[0] for op in unpack_ops(pack)} == {"ad", "delta", "remove"}
    mirror.apply(pack)
    assert sorted(mirror.keys()) == sorted(table.keys())
    assert all(mirror.get(key) == table.get(key) for key in mirror.keys())  # noqa: SIM118


def test_questions(table: AdTable) -> None:
    assert table.count() == 10
    assert table.count("Memory > 4096") == 5
    assert table.count(ExprTree('Cpus == 0 && OpSys == "linux"')) == 4
    assert table.count("MY.Start", target=ClassAd({"RequestMemory": 5000})) == 5
    assert table.count("CurrentTime == 77 && time() == 77", now=77) == 10
    found = unpack_ads(table.query("Memory >= 8192", projection=["memory", "NoSuch"]))
    assert found == [ClassAd({"Memory": 8192}), ClassAd({"Memory": 9216})]
    assert len(unpack_ads(table.query(limit=3))) == 3
    assert table.query_keys("Cpus == 2") == ["slot2", "slot5", "slot8"]
    assert sorted(table.count_by(["OpSys", "Cpus > 0"])) == [("LINUX", False, 4), ("LINUX", True, 6)]
    assert table.values(["Memory * 2", "Nothing"], "Cpus == 2") == [[4096, 10240, 16384], [UNDEFINED] * 3]
    with pytest.raises(AdSyntaxError):
        table.count("Memory >")


def test_constraints_ask_the_user_maps(table: AdTable) -> None:
    define_user_map("groups", "* slot1@host physics\n")
    try:
        assert table.query_keys('userMap("groups",Name) == "physics"') == ["slot1"]
    finally:
        define_user_map("groups", None)
    assert table.count('userMap("groups",Name) == "physics"') == 0


def test_pieces_make_up_the_whole(table: AdTable) -> None:
    chunks = table.query_chunks(chunk_rows=4)
    assert chunks.total == 10
    pieces = list(chunks)
    assert len(pieces) == 3
    assert [ad for piece in pieces for ad in unpack_ads(piece)] == unpack_ads(table.query())


def test_listings(table: AdTable) -> None:
    text = table.long_text("Memory == 1024").decode()
    assert text == (
        'Cpus = 1\nMemory = 1024\nName = "slot1@host"\nOpSys = "LINUX"\nStart = TARGET.RequestMemory <= MY.Memory\n\n'
    )
    (ad,) = json.loads(table.json_text("Memory == 1024"))
    assert ad == {
        "Cpus": 1,
        "Memory": 1024,
        "Name": "slot1@host",
        "OpSys": "LINUX",
        "Start": "/Expr(TARGET.RequestMemory <= MY.Memory)/",
    }
    assert json.loads(table.json_text("false")) == []


def test_a_cluster_comes_from_its_template() -> None:
    table = AdTable()
    keys = [f"7.{proc}" for proc in range(2000)]
    template = ClassAd({"ClusterId": 7, "Cmd": "/bin/true", "Owner": "ann"})
    table.insert_from_template(template, keys, columns={"ProcId": range(2000)})
    assert table.count('ClusterId == 7 && Owner == "ann"') == 2000
    assert table.value("7.1999", "ProcId") == 1999
    deltas = pack_ads([ClassAd({"Args": f"{proc}"}) for proc in range(3)])
    table.insert_from_template(template, ["8.0", "8.1", "8.2"], deltas)
    assert table.get("8.2") == ClassAd({"ClusterId": 7, "Cmd": "/bin/true", "Owner": "ann", "Args": "2"})
    with pytest.raises(AdBatchError):
        table.insert_from_template(template, ["9.0"], deltas)
    assert "9.0" not in table
    with pytest.raises(ValueError, match="as many"):
        table.insert_from_template(template, ["9.0"], columns={"ProcId": range(2)})


def test_ads_expire_and_are_removed_by_constraint(table: AdTable) -> None:
    table.update("slot1", {"ClassAdLifetime": 10}, received_at=100.0)
    assert table.expire(111.0) == ["slot1"]
    assert table.remove_where("Cpus == 2") == ["slot2", "slot5", "slot8"]
    assert len(table) == 6


def test_text_is_read_into_a_table(table: AdTable) -> None:
    text = table.long_text()
    again = AdTable()
    report = again.load_text(text)
    assert (report.ads, report.keyless) == (10, 0)
    assert again.long_text() == text
    pieces = AdTable()
    loader = pieces.text_loader()
    for start in range(0, len(text), 7):
        loader.feed(text[start : start + 7])
    assert loader.finish().ads == 10
    assert pieces.long_text() == text
    jobs = AdTable()
    jobs.load_text(b"ClusterId = 3\nProcId = 1\n\nClusterId = 3\nProcId = 2\n", key="job")
    assert jobs.keys() == ["3.1", "3.2"]
    with pytest.raises(AdSyntaxError, match="line 2"):
        jobs.load_text(b"A = 1\nB = = 2\n")
    assert jobs.load_text(b"A = 1\nB = = 2\n", key="number", lenient=True).bad_lines == 1


def test_frames_have_typed_columns_and_nulls(table: AdTable) -> None:
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    table.update("slot0", {"Idle": 2.5, "Mixed": "x", "Flag": True, "Half": ExprTree("Memory / 2")})
    table.update("slot1", {"Idle": 3, "Mixed": 7, "Nothing": ExprTree("undefined"), "Bad": ExprTree("1 / 0")})
    frame = table.to_polars("Memory < 3000")
    assert frame["Memory"].to_list() == [0, 1024, 2048]
    assert frame["Name"].cast(polars.String).to_list() == ["slot0@host", "slot1@host", "slot2@host"]
    assert frame["Idle"].to_list() == [2.5, 3.0, None]
    assert frame["Mixed"].cast(polars.String).to_list() == ["x", "7", None]
    assert frame["Flag"].to_list() == [True, None, None]
    assert frame["Half"].to_list() == [0, None, None]
    assert frame["Nothing"].null_count() == frame["Bad"].null_count() == 3
    told = table.to_polars("Memory < 3000", texts=True)
    assert told["Start"].cast(polars.String)[0] == "TARGET.RequestMemory <= MY.Memory"
    assert told["Half"].to_list() == [0, None, None] and told.columns == frame.columns
    read = pyarrow.table(table)
    assert read.num_rows == 10
    assert read["Cpus"].to_pylist() == [number % 3 for number in range(10)]
    assert read["Start"].null_count == 10
    as_text = pyarrow.table(table.arrow(projection=["Start"], limit=1, evaluate=False))
    assert as_text["Start"].to_pylist() == ["TARGET.RequestMemory <= MY.Memory"]
    assert pyarrow.table(table.arrow("false")).num_rows == 0
    table.arrow().__arrow_c_stream__()  # never read: freed with its capsule


def test_what_a_pack_says_of_some_attributes() -> None:
    builder = PackBuilder()
    builder.upsert("a@x", {"Name": "a@x", "Machine": "x", "Cpus": 1})
    builder.upsert("b@x", {"name": "b@x", "Machine": "x"})
    builder.update("c@x", {"NAME": ExprTree("Machine"), "Cpus": 2}, ["Machine"])
    builder.update("d@x", {"Name": 3, "Disk": 1.5})
    builder.remove("e@x")
    found = pack_keys(builder.finish(), ["Name", "Machine", "ScheddName"])
    assert (found.whole, found.changed, found.removed) == (["a@x", "b@x"], ["c@x", "d@x"], ["e@x"])
    assert found.said == {
        "Name": [("a@x", "a@x"), ("b@x", "b@x"), ("c@x", None), ("d@x", None)],
        "Machine": [("a@x", "x"), ("b@x", "x")],
        "ScheddName": [],
    }
    assert pack_keys(pack_ads([{"Name": "without a key"}]), ["Name"]).said == {"Name": []}


def test_an_attribute_set_twice_is_told_twice() -> None:
    """Which of the two an ad has is for its receiver to decide: both count."""
    once = pack_ads([{"Name": "mine@a"}], ["mine@a"])
    head, attribute = once[: once.index(b"Name") - 3], once[once.index(b"Name") - 2 :]
    assert attribute[:2] == bytes([0, 4])
    # One attribute more: the name by its number in the dictionary, and a new string.
    value = attribute[6:].replace(b"mine@a", b"your@a")
    twice = head + bytes([2]) + attribute + bytes([1]) + value
    assert pack_keys(twice, ["Name"]).said == {"Name": [("mine@a", "mine@a"), ("mine@a", "your@a")]}
    for wrong in (twice[:-1], head + bytes([2]) + attribute + bytes([9]) + value):
        with pytest.raises(AdBatchError):
            pack_keys(wrong, ["Name"])


def test_definitions_that_double_do_not_double_what_a_hint_costs() -> None:
    """`analyze` of a job with 40 attributes, each the sum of the former twice, held the negotiator for good."""
    table = AdTable()
    table.upsert("slot1@h", ClassAd({"Cpus": 4}))
    levels = {f"D{n}": ExprTree(f"D{n - 1} + D{n - 1}") for n in range(1, 40)}
    job = ClassAd({"D0": ExprTree("1 + TARGET.Cpus"), **levels, "Requirements": ExprTree("D39 == 0")})
    limit_evaluations()
    try:
        (row,) = table.clause_counts(job)
    finally:
        limit_evaluations(1 << 40, None)
    assert row.clause == "D39 == 0" and row.passes == 0
    assert len(str(ExprTree("D39 == 0").residual(job))) < 1_000_000


@pytest.mark.parametrize("text", ["A.'b c'", "A.'is'", "A.'1'", "'a b'.c", "0 .c", "-1 .c", "1.5 .c", "{ 1 }.c"])
def test_selections_are_sent_and_stored_as_they_are_read(text: str) -> None:
    """HTCondor writes ``A.'b c'`` as ``A.b c`` and ``0 .c`` as ``0.c``, which it does not read itself."""
    ad = ClassAd({"X": ExprTree(text)})
    assert unpack_ads(pack_ads([ad])) == [ad]

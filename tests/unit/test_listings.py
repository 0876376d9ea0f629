"""Forms in which listings are printed: chosen attributes, printf formats, tables that a file describes."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from slotwise.classad import ClassAd, ExprTree, parse_ads
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import parse
from slotwise.cli.render import jobviews, output_format
from slotwise.cli.render.layout import Item, Layout, ranges, unique_rows
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.poolviews import VIEWS
from slotwise.cli.render.printas import FUNCTIONS, READS, Scene
from slotwise.cli.render.printformat import parse as parse_format
from slotwise.errors import UsageError

SCENE = Scene(now=10_000.0)


def job(proc: int, **more: object) -> ClassAd:
    ad = ClassAd({"ClusterId": 7, "ProcId": proc, "Owner": "ann", "JobStatus": 1, "Cmd": "/bin/sleep", "Args": "60"})
    ad.update(more)
    return ad


def printed(*words: str, ads: list[ClassAd], tmp_path: Path) -> str:
    inv = Invocation(tmp_path, {}, io.StringIO(), io.StringIO(), io.StringIO())
    form = Form.of(parse(words, output_format.options()), inv)
    return "".join(form.pieces(ads, lambda ad: f"{ad['ClusterId']}.{ad['ProcId']}", SCENE))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-af", "ProcId", "Owner", "None_"], "3 ann undefined\n"),
        (["-af:,", "ProcId", "Owner"], "3, ann\n"),
        (["-af:t", "ProcId", "Owner"], "3\tann\n"),
        (["-af:n", "ProcId", "Owner"], "3\n ann\n"),
        (["-af:g", "ProcId", "Owner"], "\n3ann\n"),
        (["-af:lrng", "ProcId", "Size"], "\nProcId = 3\nSize = ProcId + 1\n"),
        (["-af:j", "Size"], "7.3 4\n"),
        (["-af:jl", "Size"], "ID = 7.3 Size = 4\n"),
        (["-af:V", "Owner", "Size"], '"ann" 4\n'),
        (["-af:r", "Size", "Size * 2", "None_"], "ProcId + 1 Size * 2 undefined\n"),
        (["-af:T", "Seconds"], "  1+01:01:01\n"),
        (["-af:hT", "Seconds", "Seconds + 100000"], "Seconds      Seconds + 100000\n  1+01:01:01       2+04:47:41\n"),
        # Times are recorded, too: nothing for what is no number, no labels, and none of both with V, r and o.
        (["-af:T", "Seconds", "None_", "Owner", "true", "error"], "  1+01:01:01     0+00:00:01 \n"),
        (["-af:lT", "Seconds", "None_"], "  1+01:01:01 \n"),
        (["-af:jlT", "Seconds", "None_"], "ID = 7.3   1+01:01:01 \n"),
        (["-af:T,", "None_", "true"], ",   0+00:00:01\n"),
        (["-af:hT", "None_", "Seconds", "Owner"], "None_ Seconds      Owner\n        1+01:01:01      \n"),
        (["-af:VT", "ProcId", "Owner", "None_"], '3 "ann" undefined\n'),
        (["-af:lV", "ProcId", "Owner"], 'ProcId = 3 Owner = "ann"\n'),
        (["-af:rY", "ProcId", "Size"], "3 ProcId + 1\n"),
        (["-af:To", "ProcId", "Size"], "3 ProcId + 1\n"),
        (["-af:h", "Owner", "Size"], "Owner Size\nann   4   \n"),
        # Widths are those of HTCondor 25.14.1: undefined, error, lists and quotes do not count, all digits of reals do.
        (["-af:h", "None_", "Owner"], "None_ Owner\nundefined ann  \n"),
        (["-af:jlh", "None", "Size"], " ID None Size\nID = 7.3 undefined 4   \n"),
        (["-af:jh", "{1,2}", "Size"], " ID {1,2} Size\n7.3 { 1,2 } 4   \n"),
        (["-af:hV", "Owner", "1/0", "Size"], 'Owner 1/0 Size\n"ann" error 4   \n'),
        (["-af:h", "1.25", "Owner"], "1.25                  Owner\n1.25                  ann  \n"),
        (["-af:h", "0.0", "Owner"], "0.0 Owner\n0.0 ann  \n"),
        (["-af:hr", "None", "error", "true"], "None      error true\nundefined error true\n"),
        (["-af:jlnh", "None"], " ID\n None\nID = 7.3\n undefined\n"),
        (["-af", "Size", "-af", "Owner"], "4 ann\n"),
        # Expressions of the command line are in the old syntax, as 25.14 reads them.
        (["-af", r'size("\1")', r'regexps("^(.).*", Owner, "\1")', r'strcat("x\"", "\t")'], '2 a x"\\t\n'),
        (["-format", "%s\\n", r'regexps("^(.).*", Owner, "\1")'], "a\n"),
        (["-format", "%d|", "ProcId", "-format", "%s\\n", "Owner"], "3|ann\n"),
        (["-format", "%s\\n", "Size"], "ProcId + 1\n"),
        (["-format", "%v\\n", "Size"], "4\n"),
        (["-format", "%V ", "Owner", "-format", "%r\\n", "Size"], '"ann" ProcId + 1\n'),
        (["-format", "%d\\n", "Owner"], ""),
        (["-format", "none: %d\\n", "None_"], ""),
        (["-format", "%5.1f%%\\n", "ProcId"], "  3.0%\n"),
        (["-format", "%T\\n", "Seconds"], "  1+01:01:01\n"),
        (["-long", "-attr", "ProcId,Owner"], 'Owner = "ann"\nProcId = 3\n\n'),
        (["-jsonl", "-attr", "Owner"], '{"Owner": "ann"}\n'),
    ],
)
def test_chosen_attributes(words: list[str], text: str, tmp_path: Path) -> None:
    ad = job(3, Size=ExprTree("ProcId + 1"), Seconds=90061)
    assert printed(*words, ads=[ad], tmp_path=tmp_path) == text


def test_xml_is_a_document(tmp_path: Path) -> None:
    text = printed("-xml", "-attr", "Owner", ads=[job(0), job(1)], tmp_path=tmp_path)
    assert text.startswith('<?xml version="1.0"?>\n') and text.endswith("</classads>\n")
    assert text.count('<a n="Owner"><s>ann</s></a>') == 2


@pytest.mark.parametrize(
    "words", [["-af:,n", "A"], ["-af:z", "A"], ["-af"], ["-long", "-json"], ["-json", "-af", "A"],
              ["-af", "A", "-format", "%s", "A"], ["-print-format", "nowhere"], ["-aaf"]],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        printed(*words, ads=[], tmp_path=tmp_path)


# ---- print formats


def table(text: str, ads: list[ClassAd]) -> str:
    layout = parse_format(text)
    rows = unique_rows(layout, ads, SCENE) if layout.unique else ads
    return layout.text(layout.chosen(rows, SCENE), SCENE)


def test_a_table_with_headings_widths_and_functions() -> None:
    text = """
        # ids, owners, states
        SELECT
          ClusterId AS ' ID' NOSUFFIX WIDTH 5 PRINTF '%4d.'
          ProcId    AS ' '   NOPREFIX PRINTF '%-3d'
          Owner     AS OWNER WIDTH -6 PRINTAS OWNER
          JobStatus AS ST    PRINTAS JOB_STATUS
          Missing   AS WHAT  WIDTH 4 OR ??
          Cmd                PRINTAS JOB_DESCRIPTION
        WHERE ProcId > 0
        GROUP BY
          ProcId DESCENDING
        SUMMARY NONE"""
    assert table(text, [job(0), job(1), job(2, JobStatus=5)]) == (
        " ID      OWNER  ST WHAT Cmd\n   7.2   ann    H  [??] sleep 60\n   7.1   ann    I  [??] sleep 60\n"
    )


def test_labels_and_separators() -> None:
    text = (
        r"SELECT BARE LABEL SEPARATOR ': ' RECORDSUFFIX '\n--\n' FIELDPREFIX '' FIELDSUFFIX '; '" + "\nProcId\nOwner\n"
    )
    assert table(text, [job(4)]) == "ProcId: 4; Owner: ann\n--\n"


def test_unique_rows_count_jobs() -> None:
    text = "SELECT UNIQUE NOHEADER\nOwner\nJobCount PRINTF %3d\nJobIds\n"
    ads = [job(0), job(1), job(3), job(2, Owner="bob")]
    assert table(text, ads) == "ann   3 7.0-1, 7.3\nbob   1 7.2\n"


def test_truncated_columns_are_cut() -> None:
    assert table("SELECT NOHEADER\nOwner WIDTH -2 TRUNCATE\nProcId\n", [job(5)]) == "an 5\n"


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("Owner\n", 1, "SELECT"),
        ("SELECT\nOwner WIDTH wide\n", 2, "wide"),
        ("SELECT\n\nOwner PRINTAS NOSUCH\n", 3, "NOSUCH"),
        ("SELECT SOMETIMES\n", 1, "SOMETIMES"),
        ("SELECT\nOwner ==\n", 2, "Owner =="),
        ("SELECT\nOwner OR X\n", 2, "OR"),
        ("SELECT\nOwner\nSUMMARY LATER\n", 3, "LATER"),
        ("SELECT\nOwner AS\n", 2, "AS"),
        ("", 0, "SELECT"),
    ],
)
def test_a_wrong_print_format_names_line_and_word(text: str, line: int, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_format(text, "my.cpf")
    assert f"my.cpf, line {line}" in str(caught.value) and word in str(caught.value)


def test_every_view_reads_what_it_shows() -> None:
    assert set(READS) <= set(FUNCTIONS)
    for layout in [*jobviews.VIEWS.values(), *(view.layout for view in VIEWS.values())]:
        empty = layout.text([ClassAd()], SCENE)
        assert len(empty.splitlines()) == 2  # nothing fails on an ad that has nothing
        assert layout.reads()


def test_a_column_that_may_read_any_attribute_needs_them_all() -> None:
    def columns(*texts: str) -> Layout:
        return Layout(tuple(Item(text, text) for text in texts))

    assert columns("Owner", 'eval("Cmd")').reads() == ["Owner", "Cmd"]
    assert columns("Owner", "eval(Shown)").reads() is None


def test_job_ids_are_joined_to_ranges() -> None:
    assert ranges(["1.2", "1.0", "1.1", "2.0", "1.9"]) == "1.0-2, 1.9, 2.0"


def test_columns_are_cut_to_the_width() -> None:
    layout = Layout((Item("Owner", "OWNER", left=True), Item("Cmd", "CMD", left=True)))
    assert layout.text([job(1)], SCENE, width=8) == "OWNER CM\nann   /b\n"


@pytest.mark.parametrize(
    ("about", "letters"),
    [
        ({"JobStatus": 2, "TransferringInput": True}, "<"),
        ({"JobStatus": 2, "TransferringInput": True, "TransferQueued": True}, "<q"),
        ({"JobStatus": 2, "TransferringOutput": True}, ">"),
        ({"JobStatus": 6, "TransferQueued": True}, "q>"),
        ({"JobStatus": 1, "JobCoolDownExpiration": 20_000}, "Ic"),
        ({"JobStatus": 1, "JobCoolDownExpiration": 9_000}, "I"),
        ({"JobStatus": 5}, "H"),
        ({"JobStatus": 7}, "S"),
    ],
)
def test_letters_of_job_states(about: dict[str, object], letters: str) -> None:
    assert FUNCTIONS["JOB_STATUS"](None, job(0, **about), SCENE) == letters


def test_hold_codes_show_the_first_job_of_each_kind() -> None:
    held = [job(n, JobStatus=5, HoldReasonCode=code, HoldReasonSubCode=2) for n, code in enumerate((13, 13, 15))]
    first, second = jobviews.by_hold_code(held)
    assert (first["JobCount"], first["OldestJobId"]) == (2, "7.0")
    assert (second["JobCount"], second["OldestJobId"]) == (1, "7.2")


def test_jobs_whose_requests_come_to_different_amounts_are_not_alike() -> None:
    queue = [ClassAd(f"[ClusterId = 1; ProcId = {proc}; RequestMemory = 2000 + ProcId % 2]") for proc in range(4)]
    assert [ad["JobIds"] for ad in jobviews.by_autocluster(queue)] == ["1.0, 1.2", "1.1, 1.3"]


#: Ads that print-formats.jsonl shows, as HTCondor's tool has read them: the newest first.
SHOWN_ADS = list(
    parse_ads(
        'Name = "two"\nCpus = 12\nCmd = "/bin/a"\nOwner = "bobby"\nQDate = 1795738668\nReal = 2.5\nYes = false\n'
        "List = { 1 }\nWeight = Cpus * 3\n\n"
        'Name = "one"\nCpus = 1\nCmd = "/bin/sleep"\nOwner = "ann"\nQDate = 1795738668\nReal = 1048576.0\nYes = true\n'
        'List = { Cpus,"x" }\nWeight = Cpus * 3\n'
    )
)
PRINT_FORMATS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "conformance" / "print-formats.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-af:Y", "0", "None_", "60*60"], " 1/1  00:00   1/1  01:00\n"),
        (["-af:hY", "None_", "3600", "Owner"], "None_ 3600        Owner\n       1/1  01:00      \n"),
        (["-af:TY", "3600"], " 1/1  01:00\n"),
    ],
)
def test_dates_are_those_of_htcondors_tools(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert printed(*words, ads=[job(3)], tmp_path=tmp_path) == text


@pytest.mark.parametrize("case", PRINT_FORMATS, ids=lambda case: case["format"].split("\n")[1].strip())
def test_columns_are_cut_and_filled_as_by_condor_history(case: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of HTCondor 25.14.1 to ``condor_history -file FILE -print-format FILE``. Its columns without a width, or
    that are to FIT, are as wide as what came before; here they stand below each other, so blanks are not compared."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def squeezed(text: str) -> list[str]:
        return [" ".join(line.split()) for line in text.splitlines()]

    assert squeezed(table(case["format"], SHOWN_ADS)) == squeezed(case["out"])


def test_condor_status_cuts_where_it_is_told_to_alone_and_shows_nothing_for_undefined() -> None:
    """As HTCondor 25.14.1: ``condor_status -ads FILE -print-format FILE``."""
    columns = (
        "Nope AS NO WIDTH 6",
        "Owner AS OWN WIDTH -2",
        "Cmd AS CC WIDTH -4",
        "Cmd AS CT WIDTH 4 TRUNCATE",
        "Name AS N",
    )
    layout = parse_format("\n".join(("SELECT NOHEADER", *columns, "SUMMARY NONE\n")), cuts=False)
    rows = [line.split() for line in layout.text(SHOWN_ADS, SCENE).splitlines()]
    assert rows == [["bobby", "/bin/a", "/bin", "two"], ["ann", "/bin/sleep", "/bin", "one"]]


def test_a_width_is_kept_by_cells_and_passed_by_headings() -> None:
    columns = ("Cpus AS CLUSTER WIDTH 4", "Cmd AS C WIDTH -4", "Nope AS N WIDTH 6 PRINTF %d OR ??", "Name AS N")
    text = "\n".join(("SELECT", *columns, "SUMMARY NONE\n"))
    assert table(text, SHOWN_ADS) == "CLUSTER C    N      N\n  12 /bin [????] two\n   1 /bin [????] one\n"


def test_a_format_without_an_attribute_is_printed_for_each_ad(tmp_path: Path) -> None:
    assert printed("-format", "\\n", "", ads=[job(1), job(2)], tmp_path=tmp_path) == "\n\n"
    assert printed("-format", "%d", "", ads=[job(1)], tmp_path=tmp_path) == ""


def test_nodes_stand_below_their_own_dag() -> None:
    def of(cluster: int, dag: int = 0, proc: int = 0) -> ClassAd:
        ad = ClassAd({"ClusterId": cluster, "ProcId": proc})
        if dag:
            ad["DAGManJobId"] = dag
        return ad

    ads = [of(3), of(4), of(5), of(6, 5), of(7, 3), of(8, 5, 1), of(8, 5), of(9), of(10, 3), of(11, 10), of(12, 99)]
    shown = [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in jobviews.below_their_dags(ads)]
    assert shown == ["3.0", "7.0", "10.0", "11.0", "4.0", "5.0", "6.0", "8.0", "8.1", "9.0", "12.0"]
    assert [ad["DAGDepth"] for ad in jobviews.below_their_dags(ads)] == [0, 1, 1, 2, 0, 0, 1, 1, 1, 0, 0]
    circle = [of(1, 2), of(2, 1)]
    assert len(jobviews.below_their_dags(circle)) == 2

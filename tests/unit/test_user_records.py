"""Records of users without a schedd: names, limits, totals."""

from __future__ import annotations

import sqlite3

import pytest
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.schedd.storage.batch import Batch, Once, RecordKind, UserTotals
from slotwise.schedd.storage.schema import prepare
from slotwise.schedd.users.record import check_edit
from slotwise.schedd.users.records import UserRecords


def records(*users: str) -> UserRecords:
    made = UserRecords()
    made.load([], users)
    return made


def written(batch: Batch) -> list[tuple[object, ...]]:
    """The rows that a batch leaves in a new database."""
    db = sqlite3.connect(":memory:")
    prepare(db)
    for statement in batch.statements:
        assert isinstance(statement, Once)
        db.execute(statement.sql, statement.values)
    return db.execute("SELECT * FROM users ORDER BY name").fetchall()


def test_domains_ignore_case_and_names_do_not() -> None:
    made = records("bob@Here")
    assert made.find("bob@hERE") is made.find("bob@Here") is not None
    assert made.find("Bob@Here") is None and made.find("bob@there") is None
    made.submits("bob@HERE")
    assert [record.name for record in made] == ["bob@Here"]


@pytest.mark.parametrize(
    ("text", "limit"), [("3", 3), ("1 + 1", 2), ("0", 0), ("-1", None), ("2147483647", None), ("undefined", None)]
)
def test_a_limit_is_a_number_of_jobs_or_none(text: str, limit: int | None) -> None:
    made = records("bob@here")
    check_edit("maxJobsRunning", text)
    made.edit("bob@here", {"maxJobsRunning": text}, Batch())
    assert made.running_most("bob@here") == limit and made.limited is (limit is not None)
    made.edit("bob@here", {"MAXJOBSRUNNING": "delete"}, Batch())
    assert made.running_most("bob@here") is None and not made.limited


@pytest.mark.parametrize("text", ["true", '"3"', "2.5", "error", "Other"])
def test_what_is_no_number_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        check_edit("MaxJobsRunning", text)


def test_who_may_submit() -> None:
    made = records("bob@here")
    made.check("bob@here")
    made.check("new@here")
    made.known_only = True
    with pytest.raises(DeniedError, match="Unknown User new@here"):
        made.check("new@here")
    made.disable("bob@here", "", {}, Batch())
    with pytest.raises(DeniedError, match=r"^User bob@here is disabled$"):
        made.check("bob@here")
    with pytest.raises(NotFoundError):
        made.enable("new@here", {}, Batch())


def test_what_is_written_is_what_is_read() -> None:
    made, batch = records("bob@here"), Batch()
    batch.know_record(RecordKind.USER, "ann@here")
    batch.add_record_totals(RecordKind.USER, "ann@here", UserTotals(completed=(2, 1.5, 10.0)))
    batch.add_record_totals(RecordKind.USER, "ann@here", UserTotals(completed=(1, 0.5, 1.0), removed=(4, 0.0, 2.0)))
    made.disable("bob@here", "why", {"MaxJobsRunning": "3", "Sum": "1 + 1"}, batch)
    batch.know_record(RecordKind.USER, "bob@here")
    made.add("eve@here", batch)
    made.remove("eve@here", in_use=False, batch=batch)
    ann, bob = written(batch)
    assert ann == ("ann@here", 1, "{}", 3, 2.0, 11.0, 4, 0.0, 2.0)
    assert bob[:2] == ("bob@here", 0)
    counts = [0] * 8
    record = made.find("bob@here")
    assert record is not None
    ad = record.ad(counts, "bob")
    assert (ad["DisableReason"], ad["MaxJobsRunning"], str(ad.lookup("Sum")), ad["Enabled"]) == (
        "why",
        3,
        "1 + 1",
        False,
    )

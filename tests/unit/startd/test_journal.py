"""The journal of claims."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.model.slot import VacateCode
from slotwise.startd.host.outbox import Forget
from slotwise.startd.journal import Journal
from slotwise.startd.slot import events as ev
from slotwise.table import unpack_ads

from tests.support.damage import damage_open
from tests.support.startd_point import Point, job, point


def test_a_changed_slot_is_replaced_and_a_gone_one_forgotten(tmp_path: Path) -> None:
    p = point()
    p.run()
    journal = Journal(tmp_path / "j")
    journal.save(p.it.slots, [])
    p.gone()
    journal.save([p["slot1_1"]], [])
    assert [(k.name, k.state.activity) for k in journal.load()] == [("slot1@host", "Idle"), ("slot1_1@host", "Idle")]
    journal.save([], ["slot1_1@host"])
    assert [k.name for k in journal.load()] == ["slot1@host"]


def test_rows_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    p = point()
    journal = Journal(tmp_path / "j")
    journal.save(p.it.slots, [])
    with sqlite3.connect(tmp_path / "j") as db:
        db.execute("INSERT INTO slots VALUES ('slot9@host', '{broken', '', '')")
    journal.close()
    assert [k.name for k in Journal(tmp_path / "j").load()] == ["slot1@host"]


def test_a_file_that_is_no_journal_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "j").write_text("not a database, but long enough to be taken for one" * 20)
    assert Journal(tmp_path / "j").load() == []
    assert (tmp_path / "j.unreadable").read_text().startswith("not a database")
    assert f"{tmp_path}/j is damaged" in caplog.text and "run again" in caplog.text


def test_a_file_that_is_damaged_while_it_is_open_is_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    p = point()
    p.run()
    journal = Journal(tmp_path / "j")
    journal.remember("drain", [1, "for good"])
    journal.save(p.it.slots, [])
    damage_open(tmp_path / "j", "slots")
    p.gone()
    journal.save([p["slot1_1"]], [])
    assert str(tmp_path / "j.unreadable") in caplog.text and "nothing is lost" in caplog.text
    journal.close()
    again = Journal(tmp_path / "j")
    assert [(k.name, k.state.activity) for k in again.load()] == [("slot1@host", "Idle"), ("slot1_1@host", "Idle")]
    assert again.recall("drain") == [1, "for good"]


def test_a_journal_that_lies_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f"journal {tmp_path}/missing/j cannot be used"):
        Journal(tmp_path / "missing" / "j")


def test_a_claim_whose_slot_no_longer_exists_is_given_up_and_its_run_ended(tmp_path: Path) -> None:
    p = point(NUM_SLOTS="2")
    p.run("slot2")
    journal = Journal(tmp_path / "j")
    journal.save(p.it.slots, [])
    fresh = point(NUM_SLOTS="1")
    assert fresh.it.restore(journal.load(), unpack_ads, fresh.now) == ["1.0#1"]
    assert [command.run_id for command in fresh.told(Forget)] == ["1.0#1"]
    assert "slot2@host" in fresh.it.outbox.dirty


def test_a_dynamic_slot_that_no_longer_fits_is_given_up(tmp_path: Path) -> None:
    p = point()
    p.run(wanted=job(RequestCpus=4))
    journal = Journal(tmp_path / "j")
    journal.save(p.it.slots, [])
    fresh = point(NUM_CPUS="2")
    assert fresh.it.restore(journal.load(), unpack_ads, fresh.now) == ["1.0#1"]
    fresh.it.validate()


def test_facts_about_the_startd_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.remember("mips", {"Mips": 7})
    assert journal.recall("mips") == {"Mips": 7} and journal.recall("other") is None
    journal.close()


def test_rows_keep_the_names_that_fields_had_when_the_format_was_made(tmp_path: Path) -> None:
    p = point(MaxJobRetirementTime="3600")
    p.run()
    p.apply("slot1_1", ev.VacateCommanded(), after=1)
    journal = Journal(tmp_path / "journal")
    journal.save([p["slot1_1"]], [])
    ((record,),) = sqlite3.connect(tmp_path / "journal").execute("SELECT record FROM slots").fetchall()
    state = json.loads(record)["state"]
    assert state[""] == "Claimed"
    assert state["final"] is True
    assert state["pledge"]["code"] == VacateCode.VACATE_COMMAND
    assert journal.load()[0].state == p["slot1_1"].slot.state


def test_a_claim_that_runs_nothing_is_kept_for_the_call_of_its_schedd_alone(tmp_path: Path) -> None:
    """The schedd gave it back, or the job ended, and a full disk kept the startd from writing it down."""
    p = point()
    claim_id = p.run()
    p.gone()
    busy = p.run(run_id="2.0#1")
    journal = Journal(tmp_path / "j")
    journal.save(p.it.slots, [])

    def restored() -> Point:
        fresh = p.again("2")
        assert fresh.it.restore(journal.load(), unpack_ads, fresh.now) == []
        fresh.poll(after=29)
        assert (fresh.place("slot1_1"), fresh.place("slot1_2")) == ("Claimed/Idle", "Claimed/Busy")
        return fresh

    silent = restored()
    silent.poll(after=1)
    silent.poll()
    assert not silent.has("slot1_1")
    assert silent.place("slot1_2") == "Claimed/Busy"
    silent.gone("2.0#1")
    silent.poll(after=29)
    assert silent.place("slot1_2") == "Claimed/Idle"
    silent.poll(after=1)
    silent.poll()
    assert not silent.has("slot1_2")
    called = restored()
    assert called.it.claims.keep_alive([claim_id, busy], called.now) == []
    called.poll(after=1000)
    assert called.place("slot1_1") == "Claimed/Idle"

"""The pool's commands as people and scripts use them, against a real pool."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        made = Pool(Path(directory) / "p", "NUM_CPUS = 4\n")
        made.up()
        try:
            made.until("the slot is advertised", lambda: made.json("status"))
            yield made
        finally:
            made.destroy()


def test_status_shows_slots_and_totals(pool: Pool) -> None:
    lines = pool.run("status").stdout.splitlines()
    assert lines[0].split() == ["Name", "OpSys", "Arch", "State", "Activity", "LoadAv", "Mem", "ActvtyTime"]
    assert lines[2].split()[1:3] == ["LINUX", "X86_64"]
    totals = next(n for n, line in enumerate(lines) if line.split()[:3] == ["Total", "Owner", "Claimed"])
    assert lines[totals].split()[3:] == ["Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle"]
    assert lines[-1].split()[:2] == ["Total", "1"]


def test_status_for_programs(pool: Pool) -> None:
    (ad,) = pool.json("status")
    assert ad["MyType"] == "Machine" and ad["Cpus"] == 4
    assert pool.run("status", "-af", "Cpus", "PartitionableSlot", "Nothing").stdout == "4 true undefined\n"
    assert pool.run("status", "-af:l", "Cpus").stdout == "Cpus = 4\n"
    assert pool.run("status", "-long", "-attributes", "Cpus,MyType").stdout == 'Cpus = 4\nMyType = "Machine"\n\n'
    assert json.loads(pool.run("status", "-jsonl", "-attributes", "Cpus").stdout) == {"Cpus": 4}
    assert pool.run("status", "-format", "%d cores\\n", "Cpus").stdout == "4 cores\n"


def test_an_empty_result_prints_nothing_and_is_no_failure(pool: Pool) -> None:
    assert pool.run("status", "-const", "Cpus > 1000").stdout == ""
    assert pool.run("status", "-claimed").stdout == ""
    assert pool.run("status", "no-such-host").stdout == ""
    assert pool.json("status", "-constraint", "false") == []


def test_a_bad_constraint_or_option_is_an_error(pool: Pool) -> None:
    bad = pool.run("status", "-constraint", "Cpus >", check=False)
    assert bad.returncode == 1 and bad.stdout == "" and bad.stderr
    unknown = pool.run("status", "-frobnicate", check=False)
    assert unknown.returncode == 2 and "-frobnicate" in unknown.stderr


@pytest.mark.parametrize(
    ("option", "kind"),
    [("-schedd", "Scheduler"), ("-master", "DaemonMaster"), ("-collector", "Collector"), ("-negotiator", "Negotiator")],
)
def test_every_daemon_has_an_ad(pool: Pool, option: str, kind: str) -> None:
    ads = pool.until(f"the {kind} ad", lambda: pool.json("status", option))
    assert [ad["MyType"] for ad in ads] == [kind]
    assert len(pool.run("status", option).stdout.splitlines()) >= 3


def test_names_and_views_of_slots(pool: Pool) -> None:
    name = pool.run("status", "-af", "Name").stdout.strip()
    assert len(pool.json("status", name)) == 1
    for view in ("-compact", "-state", "-server", "-avail", "-total"):
        assert "Total" in pool.run("status", view).stdout
    pool.run("status", "-parquet", "slots.parquet")
    import polars

    assert polars.read_parquet(pool.root / "slots.parquet")["Cpus"].to_list() == [4]


def test_reports_are_made_from_the_database_from_files_and_by_asking_the_schedd(pool: Pool) -> None:
    (pool.root / "true.sub").write_text("executable = /bin/true\ntransfer_executable = false\nqueue\n")
    pool.run("submit", "true.sub")
    pool.until("its end", lambda: pool.json("history", "-constraint", "JobStatus == 4"))
    pool.run("history", "-parquet", "jobs.parquet")
    name = pool.json("status", "-schedd")[0]["Name"]
    for source in ((), ("-file", "jobs.parquet"), ("-name", name)):
        found = pool.json("report", "usage", "-since", "2h", "-per", "user", *source)
        assert found["report"] == "usage" and sum(row["jobs"] for row in found["rows"]) > 0, source
    for report, words in (("waste", "CPU-USED"), ("fairness", "GOT/DUE"), ("wait", "STARTED")):
        assert words in pool.run("report", report, "-plot", f"{report}.png").stdout
        assert (pool.root / f"{report}.png").read_bytes().startswith(b"\x89PNG")


def test_watch_prints_its_screen_once_where_there_is_no_terminal(pool: Pool) -> None:
    text = pool.run("watch").stdout
    assert "4 cores in" in text and "BATCH, your jobs" in text and "held" in text.lower()
    assert pool.run("watch", "-refresh", "soon", check=False).returncode == 2


def test_priorities_are_set_and_shown(pool: Pool, tmp_path: Path) -> None:
    pool.run("userprio", "-setfactor", "ann@dom", "250")
    pool.run("userprio", "-setceiling", "ann@dom", "12", "-duration", "600")
    assert "ann@dom 12" in pool.run("userprio", "-allusers", "-af", "Name", "Ceiling").stdout.splitlines()
    text = pool.run("userprio", "-all", "-allusers").stdout
    assert text.startswith("Last Priority Update:") and re.search("^Number of users: [12]", text, re.MULTILINE)
    for words in ([], ["-all"]):
        assert "ann@dom" not in pool.run("userprio", *words).stdout, "who never used anything is not shown"
    refused = pool.run("userprio", "-setfactor", "ann", "3", check=False)
    assert refused.returncode == 2 and "user@domain" in refused.stderr
    too_small = pool.run("userprio", "-setfactor", "ann@dom", "0.1", check=False)
    assert too_small.returncode != 0 and "too small" in too_small.stderr
    names = pool.run("condor-names", "--in", str(tmp_path / "names")).stdout.strip()
    called = f"{names}/condor_userprio"
    for asked, said in (
        (("-cancelceilinglease", "ann@dom"), "Cancelled ceiling lease for ann@dom\n"),
        (("-setceiling", "ann@dom", "42", "-duration", "60"), "Set ceiling lease on ann@dom to 42 for 60 seconds\n"),
        (("-setfloor", "ann@dom", "2", "-duration", "60"), "Set floor lease on ann@dom to 2 for 60 seconds\n"),
        (("-cancelfloorlease", "ann@dom"), "Cancelled floor lease for ann@dom\n"),
        (("-setceiling", "ann@dom", "42"), "The ceiling of ann@dom was set to 42\n"),
    ):
        told = subprocess.run([called, *asked], env=pool.env, capture_output=True, text=True, check=False)
        assert told.stdout == said, told.stderr
    pool.run("userprio", "-delete", "ann@dom")
    assert "ann@dom" not in pool.run("userprio", "-allusers", "-af", "Name").stdout


def test_a_user_may_look_but_not_change_priorities(pool: Pool) -> None:
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "WRITE", "--file", "bob.token")
    bob: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "bob.token")}
    pool.run("userprio", "-allusers", **bob)
    refused = pool.run("userprio", "-setfactor", "bob@dom", "1", check=False, **bob)
    assert refused.returncode == 1 and "bob@dom may not call" in refused.stderr
    show = pool.run("token", "show", **bob).stdout
    assert "bob@dom" in show and "WRITE" in show


def test_a_reader_may_not_submit_and_nobody_may_do_anything(pool: Pool) -> None:
    (pool.root / "one.sub").write_text("executable = /bin/true\nqueue\n")
    pool.run("token", "create", "--identity", "eve@dom", "--scope", "READ", "--file", "eve.token")
    eve: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "eve.token")}
    assert pool.run("q", "-allusers", **eve).returncode == 0
    assert pool.run("submit", "one.sub", check=False, **eve).returncode == 1
    (pool.root / "none").write_text("")
    nobody: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "none")}
    commands = (["q"], ["status"], ["userprio"], ["submit", "one.sub"], ["rm", "1"], ["reschedule"], ["history"])
    for words in commands:
        done = pool.run(*words, check=False, **nobody)
        assert done.returncode == 1 and "carries no token" in done.stderr, words
    assert pool.run("ping", **nobody).returncode == 0


def test_a_user_may_act_on_own_jobs_only(pool: Pool) -> None:
    (pool.root / "held.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    for who in ("ann", "bob"):
        pool.run("token", "create", "--identity", f"{who}@dom", "--file", f"{who}.token")
    as_ann: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "ann.token")}
    as_bob: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "bob.token")}
    said = pool.run("submit", "-terse", "held.sub", **as_ann).stdout
    job = said.split()[0]
    refused = pool.run("rm", job, check=False, **as_bob)
    assert refused.returncode == 1
    assert pool.run("q", "-allusers", "-af", "Owner", "JobStatus", **as_ann).stdout == "ann 5\n"
    pool.run("rm", job, **as_ann)


def test_jobs_named_one_by_one_are_edited_all_or_not_at_all_under_htcondors_names(pool: Pool, tmp_path: Path) -> None:
    """And -submitter shows the jobs of an accounting identity, as HTCondor 25.14 does."""
    names = Path(pool.run("condor-names", "--in", str(tmp_path / "names")).stdout.strip())
    qedit, q = names / "condor_qedit", names / "condor_q"
    text = "executable = /bin/true\nhold = true\n"
    (pool.root / "plain.sub").write_text(text + "queue 2\n")
    (pool.root / "group.sub").write_text(text + "accounting_group = physics\naccounting_group_user = ann\nqueue\n")
    plain, group = (int(pool.run("submit", "-terse", name).stdout.split(".")[0]) for name in ("plain.sub", "group.sub"))

    def call(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=pool.env, cwd=pool.root, capture_output=True, text=True, check=False)

    refused = call(qedit, f"{plain}.0", "999.0", "Thing", "1")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith('Failed to set attribute "Thing" for job 999.0.\n')
    assert (
        call(qedit, f"{plain}.0", f"{plain}.1", "Other", "2").stdout == 'Set attribute "Other" for 2 matching jobs.\n'
    )
    assert call(q, str(plain), "-af", "Thing", "Other").stdout == "undefined 2\n" * 2
    owner = pool.run("q", str(plain), "-limit", "1", "-af", "Owner").stdout.strip()
    assert call(q, "-submitter", owner, "-af", "ClusterId").stdout == f"{plain}\n" * 2
    # What HTCondor's schedd answers has the time of the answer; no job has it, and no constraint finds it.
    assert call(q, str(group), "-af", "ServerTime >= QDate").stdout == "true\n"
    assert re.search(r"\nServerTime = \d+\n\n", call(q, str(group), "-long").stdout)
    assert json.loads(call(q, str(group), "-json").stdout)[0]["ServerTime"] > 0
    assert call(q, "-constraint", "ServerTime > 0", "-af", "ClusterId").stdout == ""
    shown = call(q, "-submitter", "physics.ann", "-nobatch").stdout
    assert shown.startswith("\n\n-- Submitter: physics.ann@") and f"{group}.0" in shown and "1 jobs;" in shown, shown
    pool.run("rm", "-all")


def test_the_negotiator_can_be_looked_into(pool: Pool) -> None:
    assert "Reschedule" in pool.run("reschedule").stdout
    assert pool.run("negotiator").stdout.startswith("Cycle ")
    assert "statistics" in json.loads(pool.run("negotiator", "last", "-json").stdout)
    pool.run("negotiator", "snapshot", "snap", "-now")
    done = pool.run(
        "negotiate", "--slots", "snap/slots.ads", "--jobs", "snap/jobs.ads", "--accounting", "snap/accounting.json",
        "--config", "snap/config", "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["matches"] == []


def test_ping_tells_who_one_is(pool: Pool) -> None:
    rows = pool.json("ping")
    assert {row["Daemon"] for row in rows} >= {"collector", "negotiator", "schedd", "startd", "master"}
    assert all(row["Answers"] and "ADMINISTRATOR" in row["Scopes"] for row in rows)


def test_ping_tells_what_one_may_do(pool: Pool, tmp_path: Path) -> None:
    assert (
        pool.run("ping", "WRITE").stdout
        == f"WRITE succeeded ({pool.json('ping', 'schedd')[0]['Identity']} to schedd)\n"
    )
    table = pool.run("ping", "-type", "COLLECTOR", "-table", "READ", "ADMINISTRATOR").stdout.splitlines()
    assert [line.split()[:3] for line in table[1:]] == [
        ["READ", "ALLOW", "collector"],
        ["ADMINISTRATOR", "ALLOW", "collector"],
    ]
    token = tmp_path / "reader"
    pool.run("token", "create", "--identity", "eve@here", "--scope", "READ", "--file", str(token))
    refused = pool.run("ping", "ALL", check=False, SLOTWISE_TOKEN_FILE=str(token))
    assert refused.returncode == 1
    assert refused.stdout.splitlines()[:3] == [
        "ALLOW succeeded (eve@here to schedd)",
        "READ succeeded (eve@here to schedd)",
        "WRITE failed (eve@here to schedd)",
    ]


def test_daemons_listen_on_loopback_only(pool: Pool) -> None:
    for name in ("collector", "schedd", "startd", "negotiator", "master"):
        at = json.loads((pool.home.run / f"{name}.json").read_text())
        assert at["tcp"].startswith("127.0.0.1:")
    # Of an ordinary user's pool the sockets are the user's own.
    assert pool.home.run.stat().st_mode & 0o777 == (0o755 if os.geteuid() == 0 else 0o700)


def test_help_of_a_command_has_two_ways(pool: Pool) -> None:
    assert pool.run("help", "vacate_job").stdout == pool.run("vacate-job", "-h").stdout != pool.run("help").stdout


def test_help_is_there_for_every_command(pool: Pool) -> None:
    for words in (["status"], ["userprio"], ["ping"], ["token"], ["up"], ["down"], ["negotiator"], ["reschedule"]):
        done = pool.run(*words, "--help")
        assert done.stdout.startswith("usage: slotwise"), words


def test_another_pool_is_reached_by_its_collector(pool: Pool, tmp_path: Path) -> None:
    elsewhere = Pool(tmp_path / "elsewhere")
    at = json.loads((pool.home.run / "collector.json").read_text())["tcp"]
    pool.run("token", "create", "--identity", "eve@dom", "--scope", "WRITE", "--file", str(tmp_path / "eve"))
    token: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(tmp_path / "eve")}
    nothing = elsewhere.run("status", check=False, **token)
    assert nothing.returncode == 1 and "slotwise up" in nothing.stderr
    readable = elsewhere.run("status", "-pool", at, check=False, **token)
    assert readable.returncode == 1 and "not reached with TLS" in readable.stderr
    elsewhere.config_file.write_text("SLOTWISE_ALLOW_CLEARTEXT = True\n")
    assert elsewhere.run("status", "-pool", at, "-af", "Cpus", **token).stdout == "4\n"
    assert elsewhere.run("userprio", "-pool", at, "-allusers", "-af", "Name", **token).returncode == 0
    elsewhere.config_file.write_text(f"SLOTWISE_ALLOW_CLEARTEXT = True\nCOLLECTOR_HOST = {at}\n")
    assert elsewhere.run("status", "-af", "Cpus", **token).stdout == "4\n"
    assert "Total for query" in elsewhere.run("q", "-allusers", **token).stdout
    unknown = elsewhere.run("q", "-name", "no-such-schedd", check=False, **token)
    assert unknown.returncode == 1 and "no-such-schedd" in unknown.stderr
    elsewhere.config_file.write_text(f"SLOTWISE_ALLOW_CLEARTEXT = True\nCOLLECTOR_PORT = {at.rpartition(':')[2]}\n")
    assert elsewhere.run("status", "-pool", "127.0.0.1", "-af", "Cpus", **token).stdout == "4\n"
    no_address = elsewhere.run("status", "-pool", "host:port", check=False, **token)
    assert no_address.returncode == 2 and "host:port is not the address" in no_address.stderr


def test_who_used_what_is_charged(pool: Pool) -> None:
    pool.root.parent.chmod(0o755)  # these users have no account here: the schedd acts for them as nobody
    (pool.root / "work.sub").write_text("executable = /bin/sleep\narguments = 1\nrequest_memory = 10\nqueue 2\n")
    for who in ("carl", "dora"):
        pool.run("token", "create", "--identity", f"{who}@dom", "--file", f"{who}.token")
        pool.run("submit", "work.sub", SLOTWISE_TOKEN_FILE=str(pool.root / f"{who}.token"))

    def usage() -> dict[str, float]:
        ads = pool.json("userprio", "-allusers")
        return {ad["Name"].partition("@")[0]: ad["WeightedAccumulatedUsage"] for ad in ads}

    pool.until("both are charged", lambda: usage().get("carl", 0) > 0.5 and usage().get("dora", 0) > 0.5)
    pool.until("the jobs are done", lambda: pool.json("q", "-allusers") == [])


def test_a_collector_that_died_knows_everything_again(pool: Pool) -> None:
    pool.kill("collector")
    for option in ("-slots", "-schedd", "-negotiator", "-master"):
        pool.until(f"{option} is known again", lambda o=option: pool.run("status", o, check=False).stdout)


def test_ads_of_any_kind_are_advertised_and_taken_back(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "ads").write_text('Name = "matlab"\nSeats = 5\n\nName = "ansys"\nSeats = 2\n')
    one = pool.run("advertise", "UPDATE_LICENSE_AD", "ads", cwd=tmp_path, check=False)
    assert one.returncode == 2 and "-multiple" in one.stderr
    assert "2 of 2 ads" in pool.run("advertise", "-multiple", "UPDATE_LICENSE_AD", "ads", cwd=tmp_path).stdout
    assert pool.run("status", "-license", "-af", "Name", "Seats").stdout == "ansys 2\nmatlab 5\n"
    (tmp_path / "query").write_text('MyType = "Query"\nTargetType = "License"\nRequirements = Seats > 3\n')
    assert "1 ads left" in pool.run("advertise", "INVALIDATE_LICENSE_ADS", "query", cwd=tmp_path).stdout
    assert pool.run("status", "-license", "-af", "Name").stdout == "ansys\n"
    sent = pool.run("advertise", "--json", "-multiple", "UPDATE_LICENSE_AD", "ads", cwd=tmp_path)
    assert json.loads(sent.stdout) == {"sent": 2, "refused": []}
    (tmp_path / "misnamed").write_text('Name = "a#b"\n')
    refused = pool.run("advertise", "--json", "UPDATE_STARTD_AD", "misnamed", cwd=tmp_path, check=False)
    assert refused.returncode == 1 and "has a #" in json.loads(refused.stdout)["refused"][0]
    gone = pool.run("advertise", "--json", "INVALIDATE_LICENSE_ADS", "query", cwd=tmp_path)
    assert json.loads(gone.stdout) == {"removed": 1}
    for bad in ("UPDATE_NOTHING_AD", "LICENSE"):
        assert pool.run("advertise", bad, "ads", cwd=tmp_path, check=False).returncode == 2

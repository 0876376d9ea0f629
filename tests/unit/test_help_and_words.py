"""What help shows, and what is said of words that are most likely not meant."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from slotwise.cli.common.constraints import misspelled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.examples import EXAMPLES
from slotwise.cli.main import dispatch
from slotwise.cli.registry import COMMANDS, GROUPS
from slotwise.model.attribute_names import KNOWN, meant_by

LOG = """000 (001.000.000) 2026-11-01 10:00:00 Job submitted from host: <127.0.0.1:1>
...
000 (001.001.000) 2026-11-01 10:00:00 Job submitted from host: <127.0.0.1:1>
...
012 (001.001.000) 2026-11-01 10:00:01 Job was held.
\tno such file
\tCode 13 Subcode 2
...
005 (001.000.000) 2026-11-01 10:00:02 Job terminated.
\t(1) Normal termination (return value {code})
...
009 (001.001.000) 2026-11-01 10:00:03 Job was aborted.
...
"""


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(tmp_path, {"SLOTWISE_HOME": str(tmp_path / "home")}, io.StringIO(), out, err)
    return dispatch(list(words), inv), out.getvalue(), err.getvalue()


def test_each_command_is_in_one_group_of_the_overview(tmp_path: Path) -> None:
    named = Counter(name for names in GROUPS.values() for name in names)
    assert set(named) == set(COMMANDS) and set(named.values()) == {1}
    said = run(tmp_path, "help")[1]
    assert all(f"\n{heading}\n" in said for heading in GROUPS)


def test_examples_are_of_their_command_and_stand_below_its_help(tmp_path: Path) -> None:
    assert set(EXAMPLES) == set(COMMANDS) - {"upgrade-check"}
    for name, rows in EXAMPLES.items():
        assert all(f"slotwise {name}" in call for call, _ in rows), name
    said = run(tmp_path, "q", "--help")[1]
    assert said.index("-constraint") < said.index("\nExamples\n") < said.index("slotwise q -hold")
    assert "Examples" not in run(tmp_path, "condor_q", "-help")[1]


def test_misspelled_attributes_are_told_from_those_of_ones_own() -> None:
    assert list(misspelled(["JobStatu == 2", "Requestmemory > 1", "MySite == 3", "TARGET.JobStatu == 1"])) == [
        ("JobStatu", "JobStatus")
    ]
    assert [meant_by(name) for name in KNOWN if meant_by(name)] == []
    assert (meant_by("Memroy"), meant_by("JobStauts"), meant_by("Dsik")) == ("Memory", "JobStatus", None)


def test_a_single_equals_sign_is_told_to_compare(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "q", "-constraint", "JobStatus = 2")
    assert status == 1 and "`==` compares" in err
    assert "an operator may be missing" in run(tmp_path, "q", "-constraint", "JobStatus 2")[2]


@pytest.mark.parametrize("code", [0, 7])
def test_wait_names_what_is_held_and_checks_how_jobs_ended(tmp_path: Path, code: int) -> None:
    (tmp_path / "log").write_text(LOG.format(code=code))
    status, out, err = run(tmp_path, "wait", "log")
    assert (status, out) == (0, "All jobs done.\n")
    assert err == "Job 1.1 is held: no such file (`slotwise analyze 1.1` says what to do)\n"
    status, _, err = run(tmp_path, "wait", "-check", "log")
    assert status == 3 and "Job 1.1 was removed" in err and (f"Job 1.0 exited with {code}" in err) is (code != 0)
    assert run(tmp_path, "wait", "-check", "log", "1.0")[0] == (3 if code else 0)
    rows = json.loads(run(tmp_path, "wait", "-json", "log")[1])
    assert rows[0] == {"ClusterId": 1, "ProcId": 0, "Removed": False, "ExitCode": code}
    assert rows[1]["Removed"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("condor_wait", "-check", "log"),
        ("condor_wait", "-json", "log"),
        ("condor_rm", "-json", "1"),
        ("condor_submit", "-json", "x"),
        ("condor_prio", "-json", "+1", "1"),
        ("condor_token_list", "-json"),
    ],
)
def test_options_of_ours_are_unknown_under_htcondors_names(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "log").write_text(LOG.format(code=0))
    status, out, err = run(tmp_path, *words)
    assert status == 1 and not out and err


def test_a_home_that_is_a_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    status, _, err = run(tmp_path, "q")
    assert status == 1 and "is a file, and the pool wants a directory" in err and "SLOTWISE_HOME" in err


@pytest.mark.parametrize(
    "words",
    [
        ("condor_config_val", "X"),
        ("condor_config_val", "-summary"),
        ("condor_token_list",),
        ("condor_submit", "job.sub"),
        ("condor_history", "-local"),
    ],
)
def test_warnings_of_the_configuration_are_passed_on(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "condor_config"
    file.write_text("X = 1\nwarning : hello $(X)\nif defined Y\nwarning : not said\nendif\n")
    (tmp_path / "job.sub").write_text("executable = nowhere\nqueue\n")
    _, _, err = run(tmp_path, *words)
    assert [line for line in err.splitlines() if "Config source" in line] == [
        f'Config source Warning "{file}", Line 2: hello 1'
    ]


def test_a_directory_among_tokens_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tokens" / "old").mkdir(parents=True)
    assert run(tmp_path, "condor_token_list", "-dir", "tokens") == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        *(("condor_ping", word, "WRIT") for word in ("-debug", "-debug:D_FULLDEBUG")),
        ("condor_drain", "-debug"),
        ("condor_vacate", "-debug", "nowhere"),
        ("condor_who", "-debug"),
        *((f"condor_token_{verb}", "-debug") for verb in ("fetch", "request_list")),
    ],
)
def test_debug_is_an_option_of_tools_that_call_daemons(tmp_path: Path, words: tuple[str, ...]) -> None:
    status, _, err = run(tmp_path, *words)
    assert status != 0 and "-debug" not in err, "what is wrong is the word, or that there is none"


def test_tokens_are_listed_for_programs(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    part = base64.urlsafe_b64encode(json.dumps({"alg": "HS256"}).encode()).rstrip(b"=").decode()
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "ann@site"}).encode()).rstrip(b"=").decode()
    (tmp_path / "tokens/mine").write_text(f"{part}.{claims}.c2ln\n")
    status, out, _ = run(tmp_path, "token", "list", "-dir", "tokens", "-json")
    (row,) = json.loads(out)
    assert status == 0 and row["Payload"]["sub"] == "ann@site" and row["File"] == str(tmp_path / "tokens/mine")

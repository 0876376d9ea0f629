"""`slotwise config`: what scripts rely on, and what people are told."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.host.config import state_in_daemon
from slotwise.cli.main import dispatch
from slotwise.config.table import knobs


def run(tmp_path: Path, text: str, *words: str, home: bool = False) -> tuple[int, str, str]:
    (tmp_path / "main").write_text(text)
    env = {"CONDOR_CONFIG": str(tmp_path / "main"), "HOME": str(tmp_path)}
    if home:
        env["SLOTWISE_HOME"] = str(tmp_path / "home")
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(cwd=tmp_path, env=env, stdin=io.StringIO(), stdout=out, stderr=err)
    status = dispatch(["config", *words], inv)
    return status, out.getvalue(), err.getvalue()


def test_val_prints_the_value_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "A = 1\nB = $(A) x\n", "val", "B") == (0, "1 x\n", "")
    assert run(tmp_path, "A =\n", "val", "A") == (1, "", "Not defined: A\n")
    assert run(tmp_path, "MAX_JOBS_RUNNING = 2 * 60\n", "val", "MAX_JOBS_RUNNING")[1] == "120\n"
    assert run(tmp_path, "X = a\nSTARTD.X = b\n", "val", "--subsystem", "STARTD", "X")[1] == "b\n"
    assert run(tmp_path, "X = a\nme.X = b\n", "val", "-local-name", "me", "X")[1] == "b\n"
    assert run(tmp_path, "NUM_CPUS = 3\n", "val", "-default", "NEGOTIATOR_INTERVAL")[1] == "60\n"
    assert run(tmp_path, "A = $(B)\n", "val", "-raw", "A")[1] == "$(B)\n"


def test_what_a_running_daemon_needs_for_a_knob_to_count() -> None:
    assert state_in_daemon("1", "1", "restart") == state_in_daemon("", None, "reconfig") == "has it"
    assert state_in_daemon("1", "2", "restart") == "has 1, needs a restart"
    assert state_in_daemon(None, "/wrap", "next job") == "has (none), needs a reconfig"


_PELICAN = "use FEATURE : PelicanRetryPolicy\n"
_DELAY = "PelicanRetry_MinimumDelay = 3\n"
_NOT_BY_ITSELF = "AUTO_USE_FEATURE_PelicanRetryPolicy = false\n"


@pytest.mark.parametrize(
    ("text", "schedd", "tool"),
    [
        ("", "300", None),
        (_PELICAN + _DELAY, "300", "3"),
        (_DELAY + _PELICAN, "300", "300"),
        (_DELAY, "300", "3"),
        (f"SCHEDD.{_DELAY}", "3", None),
        (_NOT_BY_ITSELF, None, None),
        (_NOT_BY_ITSELF + _PELICAN + _DELAY, "3", "3"),
        (_NOT_BY_ITSELF + _DELAY + _PELICAN, "300", "300"),
    ],
)
def test_what_a_template_sets_that_is_used_by_itself_stands_behind_the_configuration(
    tmp_path: Path, text: str, schedd: str | None, tool: str | None
) -> None:
    """The schedd uses FEATURE : PelicanRetryPolicy by itself. The values are those of HTCondor 25.14.1."""
    for subsystem, value in (("SCHEDD", schedd), ("TOOL", tool)):
        told = run(tmp_path, text, "val", "-subsystem", subsystem, "PelicanRetry_MinimumDelay")[1]
        assert told == ("" if value is None else f"{value}\n")


def test_val_json_is_one_object(tmp_path: Path) -> None:
    status, out, _ = run(tmp_path, "A = 1\nGRACEFULLY_REMOVE_JOBS = 2 > 1\n", "val", "--json", "A", "NOPE")
    assert json.loads(out) == {"A": "1", "NOPE": None}
    assert status == 1
    assert json.loads(run(tmp_path, "A = 1\n", "val", "--json", "A")[1]) == {"A": "1"}


def test_a_refused_configuration_has_exit_status_2(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "A = 1\nnonsense\n", "val", "A")
    assert (status, out) == (2, "")
    assert f"{tmp_path}/main:2" in err
    status, _, err = run(tmp_path, "A = $(B)\nB = $(A)\n", "val", "A")
    assert status == 2
    assert "A -> B -> A" in err


def test_val_verbose_tells_where_a_value_comes_from(tmp_path: Path) -> None:
    out = run(tmp_path, "\nNEGOTIATOR_INTERVAL = 2 * 10\n", "val", "-verbose", "NEGOTIATOR_INTERVAL")[1]
    for part in ("NEGOTIATOR_INTERVAL = 20", "raw: 2 * 10", "default: 60", "main, line 2", "read by: negotiator"):
        assert part in out
    assert "did you mean NEGOTIATOR_INTERVAL?" in run(tmp_path, "", "val", "-verbose", "NEGOTIATOR_INTERVL")[1]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("STRAT = true\n", 1, "did you mean START?"),
        ("\nMAX_JOBS_RUNING = 4\n", 2, "did you mean MAX_JOBS_RUNNING?"),
        ("START = (KeyboardIdle > 5\n", 1, "1 closing parenthesis missing"),
        ("NEGOTIATOR_INTERVAL = soon\n", 1, "must be an integer"),
        ("PERIODIC_EXPR_TIMESLICE = a\n", 1, "must be a number"),
        ("COLLECTOR_PORT = 99999\n", 1, "out of range"),
        ("A = $(B)\nB = x$(A)\n", 1, "A -> B -> A"),
        ("CGROUP_MEMORY_LIMIT_POLICY = sofft\n", 1, "write hard or soft or custom or none"),
        ("SLOT_CONFIG_FAILURE_MODE = error\n", 1, "write CONTINUE or CLEAR or ABORT"),
        ("START = true  # always\n", 1, "a comment has a line of its own"),
        ("DAEMON_LIST = MASTER, STARTD  # here\n", 1, "looks like a comment"),
        ("DAEMON_LIST = $(DAEMON_LIST) WEB\n", 1, "the pool's other daemons do not run here"),
        ("EXTENDED_SUBMIT_COMMANDS = [ LongJob = true ]\n", 1, "the line `[ LongJob = true ]` adds no command"),
        ("warning : look here\n", 1, "look here"),
        ("SCHEDD_NAME = two@other.test\n", 1, "write two, two@"),
    ],
)
def test_check_finds_mistakes(tmp_path: Path, text: str, line: int, message: str) -> None:
    status, out, _ = run(tmp_path, text, "check")
    first = out.splitlines()[0]
    assert f"main:{line}:" in first
    assert message in first
    assert status == (0 if "warning" in first else 1)
    assert run(tmp_path, text, "check", "-strict")[0] == 1
    assert json.loads(run(tmp_path, text, "check", "--json")[1])[0]["Line"] == line


@pytest.mark.parametrize("name", ["two", "two@", "two@$(FULL_HOSTNAME)", ""])
def test_a_name_of_this_host_or_of_none_is_sound(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, f"SCHEDD_NAME = {name}\n", "check", "-strict")[0] == 0


def test_no_knob_is_said_to_be_a_misspelling_of_itself(tmp_path: Path) -> None:
    out = run(tmp_path, "SLOTWISE_METRICS_PORT = 9100\n", "check", "-notes")[1]
    assert "there is no knob SLOTWISE_METRICS_PORT" in out and "did you mean SLOTWISE_METRICS_PORT" not in out


def families() -> list[str]:
    """Knobs with a part that the administrator chooses, with parts that are names elsewhere or nearly so."""
    chosen = {"N": ["1", "2", "12"], "DAEMON": ["SCHEDD", "STARTD", "TOOL"]}
    found = []
    for knob in knobs():
        parts = re.findall(r"<([A-Z]+)>", knob.name)
        if knob.used and parts and "CATEGORY" not in parts:
            for at, word in enumerate(["mine", "x", "Foo", "my_own", "MIP", "KFLOP", "GPUs2"]):
                filled = knob.name
                for part in parts:
                    others = chosen.get(part, [word])
                    filled = filled.replace(f"<{part}>", others[at % len(others)], 1)
                found.append(filled)
    return found


def test_no_member_of_a_family_of_knobs_is_unknown(tmp_path: Path) -> None:
    out = run(tmp_path, "".join(f"{name} = 1\n" for name in families()), "check", "-notes")[1]
    assert [line for line in out.splitlines() if "there is no knob" in line] == []
    out = run(tmp_path, "STARTD_CRON_x_EXECUTBLE = /bin/true\nJOB_TRANSFORM_NAMS = a\n", "check")[1]
    assert out.count("there is no knob") == 2


def test_check_is_content_with_macros_and_templates(tmp_path: Path) -> None:
    text = "MY_LIMIT = 5\nSTART = KeyboardIdle > $(MY_LIMIT)\nuse POLICY : Desktop\nuse FEATURE : GPUs\n"
    text += 'STARTD_ATTRS = $(STARTD_ATTRS) SiteName\nSiteName = "x"\nSLOT_TYPE_1 = 50%\n'
    text += "SLOT_CONFIG_FAILURE_MODE = Clear\nSTARTD_EXPRS = Color\nColor = 1\nSTARTD_SLOT_EXPRS = State\n"
    status, out, _ = run(tmp_path, text, "check", "-strict")
    assert (status, out) == (0, "0 error(s), 0 warning(s)\n")


def test_dump_changed_shows_what_was_set(tmp_path: Path) -> None:
    out = run(tmp_path, "NUM_CPUS = 4\nNEGOTIATOR_INTERVAL = 60\n", "dump", "--changed")[1]
    assert "NUM_CPUS = 4" in out
    assert "NEGOTIATOR_INTERVAL" not in out
    everything = json.loads(run(tmp_path, "", "dump", "--json")[1])
    assert everything["NEGOTIATOR_INTERVAL"] == "60"
    assert len(everything) > 1000


def test_explain_shows_macros_with_their_places(tmp_path: Path) -> None:
    status, out, _ = run(tmp_path, "Idle = 300\nSTART = KeyboardIdle > $(Idle)\n", "explain", "START")
    assert status == 0
    assert out.startswith("START = KeyboardIdle > 300\n")
    assert "Idle = 300    [" in out
    assert "PREEMPT =" in run(tmp_path, "", "explain")[1]


def test_explain_says_what_a_knob_is_for_and_what_a_misspelled_one_may_mean(tmp_path: Path) -> None:
    status, out, _ = run(tmp_path, "MINE = 1\n", "explain", "NEGOTIATOR_INTERVAL", "MINE")
    assert status == 0
    assert "  # Time between two negotiation cycles.\n  # int in s; default 60; read by negotiator" in out
    assert "MINE = 1\n  # a macro of the configuration's own\n" in out
    status, out, _ = run(tmp_path, "", "explain", "NEGOTATOR_INTERVAL")
    assert status == 1 and "did you mean NEGOTIATOR_INTERVAL?" in out
    (row,) = json.loads(run(tmp_path, "", "explain", "--json", "NEGOTIATOR_INTERVAL")[1])
    assert row["Meaning"]["Default"] == "60" and row["Meaning"]["Unit"] == "s"


def test_set_and_unset_are_read_after_all_files(tmp_path: Path) -> None:
    assert run(tmp_path, "A = 1\n", "set", "A = 2", home=True)[0] == 0
    assert run(tmp_path, "A = 1\n", "val", "A", home=True)[1] == "2\n"
    assert run(tmp_path, "A = 1\n", "set", "-runtime", "-subsystem", "STARTD", "A=3", home=True)[0] == 0
    assert run(tmp_path, "A = 1\n", "val", "A", home=True)[1] == "2\n"
    assert run(tmp_path, "A = 1\n", "val", "-subsystem", "STARTD", "A", home=True)[1] == "3\n"
    run(tmp_path, "A = 1\n", "unset", "A", home=True)
    assert run(tmp_path, "A = 1\n", "val", "A", home=True)[1] == "1\n"


def test_templates_are_listed(tmp_path: Path) -> None:
    assert "POLICY:UWCS_DESKTOP" in run(tmp_path, "", "templates", "policy")[1]
    assert "DAEMON_LIST=$(DAEMON_LIST) STARTD" in run(tmp_path, "", "templates", "ROLE:Execute")[1]


def test_a_setting_that_would_be_refused_is_not_made(tmp_path: Path) -> None:
    run(tmp_path, "", "set", "START = KeyboardIdle > 9", home=True)
    for wrong in ("START = (a =", "CLASSAD_LIFETIME = soon"):
        status, out, err = run(tmp_path, "", "set", wrong, home=True)
        assert status == 2 and out == "" and "not set" in err
    assert run(tmp_path, "", "val", "START", home=True)[1] == "KeyboardIdle > 9\n"
    status, _, err = run(tmp_path, "", "set", "NUM_CPUSS = 4", home=True)
    assert status == 0 and "did you mean NUM_CPUS" in err


def test_one_who_relies_on_a_list_that_keeps_nobody_out_is_told(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "HOSTDENY_WRITE = *.evil.example\nDENY_READ = *.evil.example\n", "check")
    assert status == 1 and "HOSTDENY_WRITE keeps nobody out" in out + err and " DENY_READ" not in out + err


def test_a_setting_is_read_by_tools_of_other_users_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o077)
    try:
        run(tmp_path, "", "set", "A = 2", home=True)
    finally:
        os.umask(former)
    directory = tmp_path / "home" / "config.d"
    assert directory.stat().st_mode & 0o777 == 0o755
    assert (directory / "all.persistent").stat().st_mode & 0o777 == 0o644


def test_trace_shows_what_was_set_before(tmp_path: Path) -> None:
    """HTCondor's answers (25.14.1)."""
    main = f"LOCAL_CONFIG_FILE = {tmp_path}/local\nFOO = 1\nBAR = a\nFOO = $(FOO) 2\nMASTER.FOO = 7\nif true\n"
    main += " FOO = 3\nendif\nHERE @=end\n one\n@end\n"
    (tmp_path / "local").write_text("FOO = 4\nBAR = b\nHERE @=end\n two\n three\n@end\nMASTER.FOO = 8\n")

    def was(name: str, value: str, line: int) -> str:
        return f" # trace: {name}\n  # was: {value}\n  # set at: {tmp_path}/main, line {line}\n"

    def said(*words: str) -> str:
        (tmp_path / "main").write_text(main)
        out, err = io.StringIO(), io.StringIO()
        env = {"CONDOR_CONFIG": str(tmp_path / "main"), "HOME": str(tmp_path)}
        inv = Invocation(cwd=tmp_path, env=env, stdin=io.StringIO(), stdout=out, stderr=err)
        dispatch(list(words), inv)
        return out.getvalue() + err.getvalue()

    def trace(*words: str) -> str:
        return said("condor_config_val", *words)

    def ours(*words: str) -> str:
        return said("config", "val", *words)

    foo = was("FOO", "1", 2) + was("FOO", "1 2", 4) + was("FOO", "3", 7)
    assert trace("-trace", "foo") == f"{foo}4\n"
    assert trace("FOO", "BAR", "-tr") == f"{foo}{was('BAR', 'a', 3)}4\nb\n"
    assert trace("-trace", "-subsystem", "master", "FOO") == f"{foo}8\n"
    assert trace("-trace", "MASTER.FOO") == f"{was('MASTER.FOO', '7', 5)}8\n"
    assert trace("-trace", "HERE") == f"{was('HERE', 'one', 11)}two\nthree\n"
    assert trace("-trace", "NOSUCH") == "Not defined: NOSUCH\n"
    assert trace("-trace", "-dump", "FOO").startswith(f"{foo}{was('MASTER.FOO', '7', 5)}# Configuration from machine: ")

    assert ours("-trace", "foo") == f"{foo}4\n"
    assert ours("FOO", "BAR", "-trace") == f"{foo}{was('BAR', 'a', 3)}4\nb\n"
    assert ours("-trace", "NOSUCH") == "Not defined: NOSUCH\n"
    replaced = json.loads(ours("-trace", "--json", "BAR"))["BAR"]["Replaced"]
    assert replaced == [{"Raw": "a", "Origin": f"{tmp_path}/main, line 3"}]
    assert "leave out -default, -raw, -verbose and -trace" in ours("-trace", "-startd", "FOO")

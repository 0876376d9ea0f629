"""Loading: where files come from, in which order they count, and what a refusal says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.config import home_of, load, root_file
from slotwise.errors import ConfigError
from slotwise.home import PoolHome

from tests.support import host


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_values_expand_when_asked(tmp_path: Path) -> None:
    config = load(write(tmp_path / "main", "A = 1\nB = $(A) x\nA = 2\n"), env={})
    assert config.get("b") == "2 x"
    assert config.raw("B") == "$(A) x"
    origin = config.origin("B")
    assert origin is not None
    assert (origin.file, origin.line) == (str(tmp_path / "main"), 2)


def test_a_value_of_open_references_that_grows_is_refused(tmp_path: Path) -> None:
    """Looking for the end of each is work, too: this one took minutes."""
    text = f"E = {73 * '|'}e(if:($if.\t$( #    e:$(.be:$(.be:4$:$(.be:4$4$:$(.be:4$(  ||| $ENV(NOT_SET:$(E))\n"
    config = load(write(tmp_path / "main", text), env={})
    with pytest.raises(ConfigError, match="macro expansion does not end"):
        config.get("E")


def test_subsystem_and_local_name_win(tmp_path: Path) -> None:
    text = "X = all\nSTARTD.X = startd\nsecond.X = mine\n"
    config = load(write(tmp_path / "main", text), subsystem="startd", env={})
    assert config.get("X") == "startd"
    assert config.seen_by("SCHEDD").get("X") == "all"
    assert config.seen_by("STARTD", "second").get("X") == "mine"


def test_environment_wins_over_files(tmp_path: Path) -> None:
    env = {"_CONDOR_A": "condor", "_slotwise_B": "slotwise $(A)"}
    config = load(write(tmp_path / "main", "A = 1\nB = 2\n"), env=env)
    assert config.get("A") == "condor"
    assert config.get("B") == "slotwise condor"
    assert str(config.origin("A")) == "<Environment>"


def test_home_gives_directories_and_the_file(tmp_path: Path) -> None:
    write(tmp_path / "condor_config", "NUM_CPUS = 40\n")
    config = load(home=tmp_path, env={})
    assert config.get_int("NUM_CPUS") == 40
    assert config.get("LOG") == f"{tmp_path}/log"
    assert config.get("SPOOL") == f"{tmp_path}/spool"
    assert config.get("EXECUTE") == str(PoolHome(tmp_path).execute)


def test_directories_come_before_files_and_files_may_be_replaced(tmp_path: Path) -> None:
    write(tmp_path / "d" / "10", "A = directory\nLOCAL_CONFIG_FILE = " + str(tmp_path / "local") + "\n")
    write(tmp_path / "local", "A = local\n")
    config = load(write(tmp_path / "main", f"A = main\nLOCAL_CONFIG_DIR = {tmp_path}/d\n"), env={})
    assert config.get("A") == "local"
    assert config.sources == [str(tmp_path / "main"), str(tmp_path / "d" / "10"), str(tmp_path / "local")]


def test_typed_reading(tmp_path: Path) -> None:
    config = load(write(tmp_path / "main", "N = 12\nT = true\nR = 2.5\nL = a, b  c\n"), env={})
    assert config.get_int("N") == 12
    assert config.get_bool("T") is True
    assert config.get_float("R") == 2.5
    assert config.get_list("L") == ["a", "b", "c"]
    assert config.get("NOPE") is None
    assert config.get_int("NEGOTIATOR_INTERVAL") == 60


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ("A = 1\nnonsense\n", 2, "config-syntax"),
        ("if $(X) > 3\nendif\n", 1, "config-bad-condition"),
        ("if true\n", 1, "config-unbalanced-if"),
        ("use ROLE : Nothing\n", 1, "config-unknown-template"),
        ("A @=end\nx\n", 1, "config-open-text"),
        ("error : no\n", 1, "config-stated-error"),
        ("A-B = 1\n", 1, "config-bad-name"),
    ],
)
def test_refusals_name_file_and_line(tmp_path: Path, text: str, line: int, code: str) -> None:
    path = write(tmp_path / "main", text)
    with pytest.raises(ConfigError) as caught:
        load(path, env={})
    assert caught.value.origin == f"{path}:{line}"
    assert caught.value.code == code


def test_loops_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "main", f"include : {tmp_path}/main\n")
    with pytest.raises(ConfigError, match="nested too deep"):
        load(path, env={})
    config = load(write(tmp_path / "m2", "A = $(B)\nB = $(C)\nC = $(A)\n"), env={})
    with pytest.raises(ConfigError, match="A -> B -> C -> A") as caught:
        config.get("A")
    assert caught.value.origin == f"{tmp_path}/m2:1"


def test_random_choices_repeat_with_the_same_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "main", "A = $RANDOM_INTEGER(1,1000000)\n")
    assert load(path, env={}, seed=7).get("A") == load(path, env={}, seed=7).get("A")


def test_a_missing_file_named_by_condor_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(env={"CONDOR_CONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("LOCAL_DIR = {0}/pool\n", True),
        ("LOCAL_DIR = {0}/pool\nLOG = $(LOCAL_DIR)/log\nSPOOL = $(LOCAL_DIR)/spool\n", True),
        ("NUM_CPUS = 1\n", False),
        ("LOCAL_DIR = pool\n", False),
        ("LOCAL_DIR = {0}/pool\nLOG = {0}/log\nSPOOL = $(LOCAL_DIR)/lib/spool\n", False),
        ("LOCAL_DIR = {0}/pool\nSPOOL = {0}/spool\n", False),
        ("LOCAL_DIR = {0}/pool\nif true\n", False),
    ],
)
def test_condor_config_places_a_pool_that_has_a_directory_of_its_own(text: str, placed: bool, tmp_path: Path) -> None:
    named = {"CONDOR_CONFIG": str(write(tmp_path / "main", text.format(tmp_path))), "HOME": str(tmp_path)}
    (tmp_path / ".slotwise" / "run").mkdir(parents=True)
    own, other = tmp_path / ".slotwise", tmp_path / "other"
    assert home_of(named).root == (tmp_path / "pool" if placed else own)
    assert home_of(named | {"SLOTWISE_HOME": str(other)}).root == other
    assert home_of({"HOME": str(tmp_path)}).root == home_of(named | {"CONDOR_CONFIG": "ONLY_ENV"}).root == own


def test_the_record_of_an_earlier_release_counts(brought_up: PoolHome, tmp_path: Path) -> None:
    record = root_file.file_of(brought_up)
    record.rename(record.with_name("root.file"))
    assert root_file.recorded(brought_up) == tmp_path / "main"
    root_file.record(brought_up, tmp_path / "main")
    assert [path.name for path in record.parent.iterdir()] == [record.name]


@pytest.fixture
def brought_up(tmp_path: Path) -> PoolHome:
    """A home whose pool was brought up with ``main``."""
    home = PoolHome(tmp_path / "home")
    root_file.record(home, write(tmp_path / "main", "A = main\n"))
    write(home.root / "condor_config", "A = home\n")
    return home


def test_the_file_that_the_pool_was_brought_up_with_counts_for_its_tools(brought_up: PoolHome, tmp_path: Path) -> None:
    assert load(env={}, home=brought_up).get("A") == "main"
    other = write(tmp_path / "other", "A = other\n")
    assert load(env={"CONDOR_CONFIG": str(other)}, home=brought_up).get("A") == "other"
    assert load(env={"CONDOR_CONFIG": "ONLY_ENV"}, home=brought_up).get("A") is None
    assert load(other, env={}, home=brought_up).get("A") == "other"


def _written_by_others(path: Path) -> None:
    path.chmod(0o664)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _of_another_user(path: Path) -> None:
    os.chown(path, 4711, 4711)


def _another_text(path: Path) -> None:
    path.write_text("main\n")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_written_by_others, "may be written by others"),
        (_a_link, "cannot be read"),
        (_a_fifo, "not a regular file"),
        pytest.param(_of_another_user, "another user", marks=host.needs(host.root)),
        (_another_text, "does not hold the path"),
    ],
)
def test_a_name_that_others_may_have_written_is_refused(
    spoil: Callable[[Path], None], why: str, brought_up: PoolHome, tmp_path: Path
) -> None:
    spoil(root_file.file_of(brought_up))
    with pytest.raises(ConfigError, match=why):
        load(env={}, home=brought_up)
    other = write(tmp_path / "other", "A = other\n")
    assert load(env={"CONDOR_CONFIG": str(other)}, home=brought_up).get("A") == "other"


def test_a_file_that_is_gone_is_named(brought_up: PoolHome, tmp_path: Path) -> None:
    (tmp_path / "main").unlink()
    with pytest.raises(ConfigError, match=f"{tmp_path}/main, which cannot be read"):
        load(env={}, home=brought_up)


def test_what_a_command_printed_is_kept_in_the_file_that_into_names(tmp_path: Path) -> None:
    """Rule: manual, "Including Configuration from Elsewhere": a file that exists is read and the command is not run."""
    runs = tmp_path / "runs"
    script = write(tmp_path / "tell", f"#!/bin/sh\necho once >> {runs}\necho STUFF = 1\n")
    Path(script).chmod(0o755)
    kept = tmp_path / "stuff.config"
    main = write(tmp_path / "main", f"D = {tmp_path}\ninclude command into $(D)/stuff.config : {script}\n")
    for _ in range(2):
        assert load(main, env={}).get("STUFF") == "1"
    assert kept.read_text() == "STUFF = 1\n"
    kept.write_text("STUFF = 2\n")
    assert load(main, env={}).get("STUFF") == "2"
    assert runs.read_text() == "once\n"


def test_a_command_that_fails_leaves_no_file_and_stops_unless_ifexist_says_so(tmp_path: Path) -> None:
    script = write(tmp_path / "tell", "#!/bin/sh\necho STUFF = 1\nexit 3\n")
    Path(script).chmod(0o755)
    kept = tmp_path / "stuff.config"
    main = write(tmp_path / "main", f"include command into {kept} : {script}\n")
    with pytest.raises(ConfigError, match="exited with status 3"):
        load(main, env={})
    assert (
        load(write(tmp_path / "may", f"include ifexist command into {kept} : {script}\n"), env={}).get("STUFF") is None
    )
    with pytest.raises(ConfigError, match="for write"):
        load(write(tmp_path / "no", f"include command into {tmp_path}/none/x : /bin/echo A = 1\n"), env={})
    assert not kept.exists() and not list(tmp_path.glob("*new*"))


def test_expressions_in_macros_and_knobs_know_the_time_of_day(tmp_path: Path) -> None:
    text = "ThisYear = splitTime(absTime(time(), 0)).Year\nYear = $EVAL(ThisYear)\nQUERY_TIMEOUT = time() > 0 ? 7 : 8\n"
    config = load(write(tmp_path / "main", text), env={})
    assert int(config.get("Year") or 0) >= 2024
    assert config.get_int("QUERY_TIMEOUT") == 7


def test_more_parents_than_a_path_has_are_none(tmp_path: Path) -> None:
    config = load(
        write(tmp_path / "main", "P = /a/b/c.x\nTwo = $Fdd(P)\nAll = $Fddd(P)\nMore = [$Fddddn(P)]\n"), env={}
    )
    assert [config.get(name) for name in ("Two", "All", "More")] == ["a/b/", "/a/b/", "[]"]


def test_an_include_of_no_command_is_a_warning_and_of_no_file_an_error(tmp_path: Path) -> None:
    config = load(write(tmp_path / "main", "include command : $(NOPE)\nA = 1\n"), env={})
    assert config.get("A") == "1"
    ((origin, message),) = config.warnings
    assert "no command" in message
    assert origin.line == 1
    for text in ("include : $(NOPE)\n", "include : |\n"):
        with pytest.raises(ConfigError, match="names no"):
            load(write(tmp_path / "main", text), env={})

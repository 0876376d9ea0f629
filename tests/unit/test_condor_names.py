"""HTCondor's names of commands: what they run, their links, and how they end."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from slotwise.cli import main, registry
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.host import condor_names
from slotwise.config import loading
from slotwise.errors import HostError

from tests.support import host


def run(tmp_path: Path, *words: str, **env: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(tmp_path, {"HOME": str(tmp_path), **env}, io.StringIO(), out, err)
    return main.dispatch(list(words), inv), out.getvalue(), err.getvalue()


def test_words_that_are_off_end_with_1_under_htcondors_names(tmp_path: Path) -> None:
    assert run(tmp_path, "q", "-nosuch")[0] == 2
    status, out, err = run(tmp_path, "condor_q", "-nosuch")
    assert status == 1
    assert err == "Error: unrecognized argument -nosuch\n"
    assert out.startswith("Usage: condor_q")


def test_a_name_that_htcondor_has_and_we_do_not_is_no_command(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "condor_negotiate")
    assert status == 1 and "there is no command 'condor_negotiate'" in err
    assert run(tmp_path, "condor_up")[0] == 1


def test_each_name_runs_something() -> None:
    for name in registry.CONDOR_NAMES:
        assert callable(main.command(name)), name


def test_names_are_listed_for_people_and_programs(tmp_path: Path) -> None:
    names = run(tmp_path, "condor-names", "--list")[1].split()
    assert names == list(registry.CONDOR_NAMES)
    assert json.loads(run(tmp_path, "condor-names", "--list", "--json")[1]) == names
    status, _, said = run(tmp_path, "condor-names", "-json")
    assert status and "--json goes with --list" in said


@pytest.mark.parametrize("words", [("condor_version",), ("condor_q", "-version"), ("condor_status", "-version")])
def test_probes_of_the_version_find_number_and_date(tmp_path: Path, words: tuple[str, ...]) -> None:
    status, out, _ = run(tmp_path, *words)
    assert status == 0
    version, platform = out.splitlines()
    assert re.fullmatch(r"\$CondorVersion: 25\.14\.\d+ \d{4}-\d\d-\d\d .*\$", version)
    assert re.fullmatch(r"\$CondorPlatform: \S+ \$", platform)


def test_links_replace_nothing_that_is_another_program(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "slotwise"
    program.parent.mkdir()
    program.touch()
    names = tmp_path / "names"
    condor_names.link(names, program)
    condor_names.link(names, program)
    assert {path.name for path in names.iterdir()} == set(registry.CONDOR_NAMES)
    assert (names / "condor_q").resolve() == program
    (names / "condor_rm").unlink()
    (names / "condor_q").unlink()
    (names / "condor_q").write_text("HTCondor's own")
    with pytest.raises(HostError, match="condor_q is there already"):
        condor_names.link(names, program)
    assert (names / "condor_q").read_text() == "HTCondor's own"
    assert not (names / "condor_rm").exists(), "nothing is made when one name is taken"


def test_removing_the_links_removes_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "slotwise"
    program.parent.mkdir()
    program.touch()
    names = tmp_path / "names"
    condor_names.link(names, program)
    others = {name: names / name for name in ("condor_q", "condor_rm")}
    for path in others.values():
        path.unlink()
    others["condor_q"].write_text("HTCondor's own")
    others["condor_rm"].symlink_to("/bin/true")
    condor_names.unlink(names, program)
    assert set(names.iterdir()) == set(others.values())


def test_the_launcher_hands_its_name_on(tmp_path: Path) -> None:
    launcher = Path(sys.executable).with_name("slotwise")
    host.need(host.launcher)
    (tmp_path / "condor_version").symlink_to(launcher)
    (tmp_path / "htcondor").symlink_to(launcher)
    (tmp_path / "other").symlink_to(launcher)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    told = subprocess.run([tmp_path / "condor_version"], env=env, capture_output=True, text=True)
    assert told.stdout.startswith("$CondorVersion: 25.14."), told
    told = subprocess.run([tmp_path / "htcondor", "--version"], env=env, capture_output=True, text=True)
    assert told.stdout.startswith("$CondorVersion: 25.14."), told
    told = subprocess.run([tmp_path / "other", "version"], env=env, capture_output=True, text=True)
    assert told.stdout.startswith("slotwise "), told


@pytest.mark.parametrize("name", ["upgrade-check", "condor_upgrade_check"])
def test_upgrade_check_says_why_it_checks_nothing_and_what_to_call_instead(tmp_path: Path, name: str) -> None:
    status, out, err = run(tmp_path, name, "--all")
    assert (status, out) == (1, "") and "installations of HTCondor" in err and "config check" in err


def test_the_links_are_files_of_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "slotwise-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("slotwise/__init__.py,,\n")

    class Listed:
        name = "RECORD"

        def locate(self) -> Path:
            return record

    monkeypatch.setattr(metadata, "files", lambda _: [Listed()])
    for _ in range(2):  # the second time there is nothing to add
        condor_names.note_installed(tmp_path / "slotwise" / "condor_names")
    rows = record.read_text().splitlines()
    layout = [f"slotwise/release_dir/{name},," for name in ("bin", "sbin", "libexec")]
    assert rows[1:] == [*(f"slotwise/condor_names/{name},," for name in registry.CONDOR_NAMES), *layout]


def test_the_installation_is_laid_out_as_htcondors(tmp_path: Path) -> None:
    for name in ("condor_names", "libexec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "program").touch()
    for _ in range(2):
        condor_names.lay_out(tmp_path / "release_dir")
    assert all((tmp_path / "release_dir" / name / "program").exists() for name in ("bin", "sbin", "libexec"))


def test_knobs_of_programs_name_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "RELEASE_DIR", tmp_path)
    file = tmp_path / "c"
    file.write_text("")
    config = loading.load(file, env={}, home=tmp_path / "home")
    assert [config.get(name) for name in ("BIN", "SBIN", "LIBEXEC")] == [
        str(tmp_path / name) for name in ("bin", "sbin", "libexec")
    ]
    file.write_text("RELEASE_DIR = /opt/condor\nLIBEXEC = /x\n")
    config = loading.load(file, env={}, home=tmp_path / "home")
    assert [config.get(name) for name in ("BIN", "LIBEXEC")] == ["/opt/condor/bin", "/x"]
    monkeypatch.setattr(loading, "RELEASE_DIR", tmp_path / "none")
    assert loading.load("/dev/null", env={}, home=tmp_path / "home").get("BIN") == "/usr/bin"


@host.needs(host.root)
def test_links_in_anothers_directory_are_told_of_with_the_remedy(tmp_path: Path) -> None:
    made = os.fork()
    if not made:
        os.seteuid(65534)
        try:
            condor_names.link(tmp_path, tmp_path / "slotwise")
        except HostError as error:
            os._exit(0 if "--in DIR" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(made, 0)[1]) == 0

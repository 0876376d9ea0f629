"""Root reads no configuration that another user has, or that everybody may write: it may run commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.errors import ConfigError
from slotwise.wire import map_file

from tests.support import host

pytestmark = host.needs(host.root)


@pytest.mark.parametrize("place", ["root", "included", "local", "directory"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_what_others_may_write_is_refused(tmp_path: Path, place: str, how: str) -> None:
    marker = tmp_path / "ran"
    local = tmp_path / "local.d"
    local.mkdir()
    bad = local / "bad.config"
    bad.write_text(f"include command : /bin/touch {marker}\n")
    root = tmp_path / "condor_config"
    root.write_text(
        {
            "root": "",
            "included": f"include : {bad}\n",
            "local": f"LOCAL_CONFIG_FILE = {bad}\n",
            "directory": f"LOCAL_CONFIG_DIR = {local}\n",
        }[place]
    )
    named = bad if place == "root" else root
    if how == "owner":
        os.chown(bad, 12345, 12345)
    else:
        bad.chmod(0o666)
    with pytest.raises(ConfigError) as refused:
        load(named, env={}, home=None)
    assert "bad.config" in str(refused.value)
    assert ("belongs to uid 12345" if how == "owner" else "everybody may write") in str(refused.value)
    assert not marker.exists()


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A file of root's with lines that another user wrote, as logs have them and /proc for setuid programs."""
    found = tmp_path / "log"
    found.write_text(f"include command : /bin/touch {tmp_path}/ran\n")
    return found


@pytest.mark.parametrize(
    "root", ["LOCAL_CONFIG_DIR = {}", "LOCAL_CONFIG_FILE = {}/link", "include : {}/link", "include : {}/../theirs/link"]
)
@pytest.mark.parametrize("how", ["owner", "mode", "sticky"])
def test_a_link_that_others_may_set_leads_root_to_no_file(tmp_path: Path, planted: Path, root: str, how: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(planted)
    if how == "owner":
        os.chown(theirs, 12345, 12345)
    else:
        theirs.chmod(0o1777 if how == "sticky" else 0o777)
        os.chown(theirs / "link", 12345, 12345, follow_symlinks=False)
    (tmp_path / "condor_config").write_text(root.format(theirs) + "\n")
    with pytest.raises(ConfigError, match="others than root may change"):
        load(tmp_path / "condor_config", env={}, home=None)
    assert not (tmp_path / "ran").exists()


def test_roots_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("NUM_CPUS = 3\n")
    (tmp_path / "way").symlink_to("real/../real")
    (tmp_path / "condor_config").write_text("include : way/file\n".replace("way", f"{tmp_path}/way"))
    assert load(tmp_path / "condor_config", env={}, home=None).get("NUM_CPUS") == "3"


@pytest.mark.parametrize("how", ["owner", "mode", "directory", "path"])
def test_a_program_that_others_may_replace_is_not_run_for_roots_configuration(tmp_path: Path, how: str) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    program = place / "tell"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho NUM_CPUS = 3\n")
    program.chmod(0o757 if how == "mode" else 0o755)
    if how != "mode":
        os.chown(place if how == "directory" else program, 12345, 12345)
    named = "tell" if how == "path" else program
    (tmp_path / "condor_config").write_text(f"include command : {named}\n")
    with pytest.raises(ConfigError, match=r"belongs to uid 12345|everybody may write|others than root may change"):
        load(tmp_path / "condor_config", env={"PATH": f"{place}:/usr/bin:/bin"}, home=None)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", ["owner", "mode"])
def test_what_a_command_said_is_kept_where_nobody_else_writes(tmp_path: Path, how: str) -> None:
    """By a name that others can foresee: a link there would have root write the file that it leads to."""
    theirs, precious = tmp_path / "theirs", tmp_path / "precious"
    theirs.mkdir()
    precious.write_text("whole\n")
    if how == "owner":
        os.chown(theirs, 12345, 12345)
    else:
        theirs.chmod(0o777)
    (theirs / f"kept.new.{os.getpid()}").symlink_to(precious)
    (tmp_path / "condor_config").write_text(f"include command into {theirs}/kept.config : /bin/echo NUM_CPUS = 3\n")
    with pytest.raises(ConfigError, match="others than root may change"):
        load(tmp_path / "condor_config", env={}, home=None)
    assert precious.read_text() == "whole\n"


def test_a_link_in_the_place_of_what_is_kept_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("whole\n")
    (tmp_path / f"kept.new.{os.getpid()}").symlink_to(precious)
    (tmp_path / "condor_config").write_text(f"include command into {tmp_path}/kept.config : /bin/echo NUM_CPUS = 3\n")
    assert load(tmp_path / "condor_config", env={}, home=None).get("NUM_CPUS") == "3"
    assert precious.read_text() == "whole\n"
    assert (tmp_path / "kept.config").read_text() == "NUM_CPUS = 3\n"


def test_a_file_that_is_there_and_refused_is_no_file_that_may_be_missing(tmp_path: Path) -> None:
    bad = tmp_path / "bad.config"
    bad.write_text("DENY_WRITE = *\n")
    os.chown(bad, 12345, 12345)
    (tmp_path / "condor_config").write_text(f"include ifexist : {bad}\ninclude ifexist : {tmp_path}/missing\n")
    with pytest.raises(ConfigError, match="belongs to uid 12345"):
        load(tmp_path / "condor_config", env={}, home=None)


@pytest.mark.parametrize("whose", ["map", "included", "directory"])
def test_nobody_but_root_says_whom_certificates_stand_for(tmp_path: Path, whose: str) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "map").write_text('SSL "/CN=mallory" root\n')
    mapped = tmp_path / "map"
    mapped.write_text("@include more\n")
    root = tmp_path / "condor_config"
    root.write_text(f"CERTIFICATE_MAPFILE = {mapped}\nUID_DOMAIN = example.org\n")
    assert map_file.read(load(root, env={}, home=None)).user("SSL", "/CN=mallory") == "root@example.org"
    os.chown({"map": mapped, "included": more / "map", "directory": more}[whose], 12345, 12345)
    with pytest.raises(ConfigError, match=r"belongs to uid 12345|others may write"):
        map_file.read(load(root, env={}, home=None))


def test_roots_own_file_is_read_though_a_group_may_write_it(tmp_path: Path) -> None:
    mine = tmp_path / "condor_config"
    mine.write_text("NUM_CPUS = 3\n")
    mine.chmod(0o664)
    assert load(mine, env={}, home=None).get("NUM_CPUS") == "3"

"""SETTABLE_ATTRS lists: who may set which knob from afar, and what is kept of it where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.authorization import settable
from slotwise.authorization.policy import LEVELS, Decision
from slotwise.config import Config, load
from slotwise.config.remote import RemoteSettings
from slotwise.errors import ConfigError, DeniedError


def configured(tmp_path: Path, text: str, subsystem: str = "SCHEDD") -> Config:
    path = tmp_path / "condor_config"
    path.write_text(text)
    return load(path, subsystem=subsystem, env={})


def having(*levels: str) -> dict[str, Decision]:
    return {level: Decision(level in levels, level, f"{level} was asked") for level in LEVELS}


@pytest.mark.parametrize(
    ("levels", "name", "allowed"),
    [
        (("CONFIG", "READ"), "SCHEDD_DEBUG", True),
        (("CONFIG", "READ"), "schedd_debug", True),
        (("CONFIG", "READ"), "MAX_SCHEDD_LOG", True),
        (("CONFIG", "READ"), "MAX_LOG", False),
        (("CONFIG", "READ"), "ALLOW_WRITE", False),
        (("READ",), "SCHEDD_DEBUG", False),
        (("WRITE", "READ"), "PublishedByUsers", True),
        (("READ",), "PublishedByUsers", False),
        (("ADMINISTRATOR", "WRITE", "READ"), "SCHEDD_DEBUG", False),
    ],
)
def test_a_knob_is_settable_by_the_levels_whose_list_has_it(
    tmp_path: Path, levels: tuple[str, ...], name: str, allowed: bool
) -> None:
    text = "SETTABLE_ATTRS_CONFIG = *_DEBUG, MAX_*_LOG\nSETTABLE_ATTRS_WRITE = PublishedByUsers\n"
    assert settable.read(configured(tmp_path, text)).decide(having(*levels), name).allowed is allowed


def test_a_refusal_names_the_line(tmp_path: Path) -> None:
    lists = settable.read(configured(tmp_path, "A = 1\nSETTABLE_ATTRS_CONFIG = FOO\n"))
    place = f"{tmp_path}/condor_config, line 2"
    lacking = lists.decide(having("READ"), "FOO")
    assert lacking.reason == (f"SETTABLE_ATTRS_CONFIG has `FOO` ({place}), and CONFIG is not allowed: CONFIG was asked")
    assert lists.decide(having("CONFIG"), "BAR").reason == f"SETTABLE_ATTRS_CONFIG ({place}) does not have BAR"
    assert "no SETTABLE_ATTRS list" in settable.read(configured(tmp_path, "")).decide(having(*LEVELS), "FOO").reason


def test_a_daemon_has_lists_of_its_own(tmp_path: Path) -> None:
    # As HTCondor 25.14 answers: the schedd allows BAZ and not FOOX.
    text = "SETTABLE_ATTRS_CONFIG = FOO*\nSCHEDD.SETTABLE_ATTRS_CONFIG = BAZ\n"
    schedd, startd = (settable.read(configured(tmp_path, text, who)) for who in ("SCHEDD", "STARTD"))
    assert [schedd.decide(having("CONFIG"), name).allowed for name in ("FOOX", "BAZ")] == [False, True]
    assert [startd.decide(having("CONFIG"), name).allowed for name in ("FOOX", "BAZ")] == [True, False]


def accept(_settings: dict[str, str]) -> None:
    """Whatever is set is good."""


def persistent(tmp_path: Path) -> RemoteSettings:
    directory = tmp_path / "told"
    directory.mkdir(exist_ok=True)
    return RemoteSettings(
        configured(tmp_path, f"ENABLE_PERSISTENT_CONFIG = True\nPERSISTENT_CONFIG_DIR = {directory}\n")
    )


def test_persistent_settings_have_the_files_of_htcondor(tmp_path: Path) -> None:
    told = persistent(tmp_path)
    for name in ("FOOX", "foo"):
        told.change(name, "2", runtime=False, try_it=accept)
    directory = tmp_path / "told"
    assert (directory / ".config.SCHEDD").read_text() == "RUNTIME_CONFIG_ADMIN = foo, foox\n"
    assert (directory / ".config.SCHEDD.foox").read_text() == "FOOX = 2\n"
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o644}
    fresh = persistent(tmp_path)
    assert fresh.files() == [f"{directory}/.config.SCHEDD.{name}" for name in ("foo", "foox")]
    read = load(tmp_path / "condor_config", subsystem="SCHEDD", env={}, remote_files=fresh.files())
    assert (read.get("FOOX"), str(read.origin("FOOX"))) == ("2", f"{directory}/.config.SCHEDD.foox, line 1")
    for name in ("FOO", "FOOX"):
        fresh.change(name, None, runtime=False, try_it=accept)
    assert not list(directory.iterdir())


def test_a_value_cannot_bring_further_settings(tmp_path: Path) -> None:
    # HTCondor 25.14 takes this, and ALLOW_WRITE with it.
    told = persistent(tmp_path)
    for value in ("2\nALLOW_WRITE = *", "2\rALLOW_WRITE = *", "2\0"):
        with pytest.raises(ConfigError, match="line break"):
            told.change("FOO", value, runtime=False, try_it=accept)
    for name in ("../../etc/FOO", "FOO BAR", "", "FOO\nBAR", "$SECURITY.HOST_BASED"):
        with pytest.raises(ConfigError, match="not the name of a knob"):
            told.change(name, "2", runtime=False, try_it=accept)
    assert not list((tmp_path / "told").iterdir())


def test_nothing_is_kept_that_is_not_enabled_or_not_usable(tmp_path: Path) -> None:
    told = RemoteSettings(configured(tmp_path, "ENABLE_RUNTIME_CONFIG = True\n"))
    with pytest.raises(DeniedError, match="ENABLE_PERSISTENT_CONFIG was false"):
        told.change("FOO", "2", runtime=False, try_it=accept)

    def refuse(settings: dict[str, str]) -> None:
        raise ConfigError(str(settings))

    with pytest.raises(ConfigError, match="FOO"):
        told.change("FOO", "2", runtime=True, try_it=refuse)
    assert told.runtime == {}
    told.change("FOO", "2", runtime=True, try_it=accept)
    told.change("foo", "3", runtime=True, try_it=accept)
    assert told.runtime == {"foo": "3"}
    told.change("FOO", None, runtime=True, try_it=refuse)
    assert told.runtime == {}
    with pytest.raises(ConfigError, match="neither SCHEDD_CONFIG nor PERSISTENT_CONFIG_DIR"):
        RemoteSettings(configured(tmp_path, "ENABLE_PERSISTENT_CONFIG = True\n"))


@pytest.mark.parametrize("name", ["if", "ELIF", "Else", "endif"])
def test_a_setting_that_would_make_the_configuration_unreadable_is_refused(tmp_path: Path, name: str) -> None:
    told = persistent(tmp_path)
    with pytest.raises(ConfigError, match="is not the name of a knob"):
        told.change(name, "true", runtime=False, try_it=accept)
    assert told.files() == []


def test_files_that_others_may_have_written_are_refused(tmp_path: Path) -> None:
    told = persistent(tmp_path)
    told.change("FOO", "2", runtime=False, try_it=accept)
    directory = tmp_path / "told"
    for path in (directory, directory / ".config.SCHEDD", directory / ".config.SCHEDD.foo"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        with pytest.raises(ConfigError, match="others may write"):
            told.files()
        path.chmod(mode)
    (directory / ".config.SCHEDD.foo").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        told.files()
    (directory / ".config.SCHEDD.foo").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="not a regular file"):
        told.files()
    aside = directory.rename(tmp_path / "aside")
    directory.symlink_to(aside)
    with pytest.raises(ConfigError, match="symbolic link"):
        told.files()
    if os.geteuid() == 0:
        directory.unlink()
        aside.rename(directory)
        os.chown(directory, 12345, 12345)
        with pytest.raises(ConfigError, match="another user"):
            told.files()

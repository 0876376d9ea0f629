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

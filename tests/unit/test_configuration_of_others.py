"""Root reads no configuration that another user has, or that everybody may write: it may run commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.errors import ConfigError

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


def test_roots_own_file_is_read_though_a_group_may_write_it(tmp_path: Path) -> None:
    mine = tmp_path / "condor_config"
    mine.write_text("NUM_CPUS = 3\n")
    mine.chmod(0o664)
    assert load(mine, env={}, home=None).get("NUM_CPUS") == "3"

"""What a starter does not take from jobs as it stands: files in their directories, names of attributes; full pools."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement import accounts
from slotwise.starter.enforcement.privilege import read_small, rights_of
from slotwise.starter.host.capabilities import Enforcement
from slotwise.starter.io_proxy.listener import JobIoProxy
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.scratch.lvm import PoolUse

from tests.support import host


def test_a_small_text_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(b"abc\xffdef")
    assert read_small(tmp_path / "said", Identity(), 5) == "abc\ufffdd"


@host.needs(host.root)
@pytest.mark.parametrize("kept", [{"uid": None}, {"uid": 0, "gid": 0}, {}, None, {"name": "ann"}])
def test_under_root_no_record_of_a_run_says_that_it_is_roots(kept: object) -> None:
    """Also not one of a starter that was an ordinary user's, whose jobs had its own account."""
    with pytest.raises(ValueError, match="names no account"):
        accounts.from_json(kept)
    ann = Identity(1234, 100, (5,), "ann")
    assert accounts.from_json(accounts.to_json(ann)) == ann


def test_links_pipes_and_directories_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory", "missing"):
        with pytest.raises(OSError):
            read_small(tmp_path / name, Identity(), 100)


@host.needs(host.root)
def test_rights_that_the_kernel_does_not_give_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from slotwise.daemon import file_rights

    silent = SimpleNamespace(setfsuid=lambda _: 0, setfsgid=lambda _: 0, syscall=lambda *_: 0)
    monkeypatch.setattr(file_rights, "_libc", silent)
    with pytest.raises(PermissionError), rights_of(Identity(uid=65534, gid=65534)):
        pytest.fail("opened with the starter's own rights")


def proxy(rules: ChirpRules) -> JobIoProxy:
    """The io proxy of a job without an ad."""
    return JobIoProxy(RunJob(), rules, lambda _request: None)


def test_delayed_attributes_have_the_names_of_attributes_in_any_case() -> None:
    job = proxy(ChirpRules(most=1))
    assert job.delay("ChirpX = 1\nOwner", '"root"') == errno.EINVAL
    assert job.delay("Chirp x", "1") == errno.EINVAL
    assert job.delay("Other", "1") == errno.EACCES
    assert job.delay("chirpDone", "1") == 0
    assert job.delay("ChirpDone", "2") == 0  # the same attribute: no second one
    assert job.delay("ChirpMore", "3") == errno.ENOSPC
    assert job.delayed("CHIRPDONE") == "2"


def test_an_exhausted_thin_pool_is_a_gap_while_it_lasts() -> None:
    host = Enforcement(True, CgroupHost(), "lvm", "gid", True, False, ("no freezer",))
    assert host.with_pool(PoolUse("vg/pool", 50.0, 40.0)) is host
    full = host.with_pool(PoolUse("vg/pool", 20.0, 100.0))  # the metadata is full, which stops writes as well
    gaps = full.gaps
    assert gaps[0] == "no freezer" and "vg/pool is full" in gaps[1] and len(gaps) == 2
    assert full.with_pool(PoolUse("vg/pool", 100.0, 100.0)) is full
    assert full.with_pool(PoolUse("vg/pool", 20.0, 20.0)).gaps == ("no freezer",)
    assert full.with_pool(None).gaps == ("no freezer",)

"""Whose the files of a restored pool are: the restorer and the queue decide, and not the archive."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotwise.cli.host import backup
from slotwise.home import PoolHome

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.open_installation import opened
from tests.support.pool import Pool

pytestmark = [pytest.mark.host, host.needs(host.root)]

Change = Callable[[tarfile.TarInfo], None]


@pytest.fixture
def accounts() -> Iterator[tuple[HostUser, HostUser]]:
    with host_users("mallory", "bob") as (mallory, bob):
        yield mallory, bob


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory that all accounts can enter."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def changed(archive: Path, change: Change) -> Path:
    """The archive with other facts about its files."""
    made = archive.with_name(f"changed-{archive.name}")
    with tarfile.open(archive) as source, tarfile.open(made, "w:gz") as target:
        for member in source:
            data = source.extractfile(member).read() if member.isreg() else b""  # type: ignore[union-attr]
            change(member)
            target.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return made


def restored(top: Path, mallory: HostUser, change: Change) -> PoolHome:
    """A home of keys, queue and sandbox, restored by root from an archive that has been changed."""
    home = PoolHome(top / "made")
    for path in (home.spool / "schedd.sqlite", home.secrets / "signing" / "pool", home.root / "tls" / "host.key"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("its own")
        path.chmod(0o600)
    (home.sandboxes / "1/0").mkdir(parents=True)
    (home.sandboxes / "1/0/input").write_text("bob's")
    archive = top / "saved.tar.gz"
    backup.write(home, archive, 1.0)
    fresh = PoolHome(top / "fresh")
    assert backup.read(changed(archive, change), fresh)[0] >= 3
    return fresh


def test_no_account_that_an_archive_names_gets_what_it_has(accounts: tuple[HostUser, HostUser], top: Path) -> None:
    mallory, _ = accounts

    def give(member: tarfile.TarInfo) -> None:
        member.uid, member.gid, member.uname, member.gname = mallory.uid, mallory.gid, mallory.name, mallory.name

    fresh = restored(top, mallory, give)
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in fresh.root.rglob("*")}
    assert owners == {(0, 0)}


def test_an_archive_opens_nothing_of_the_daemons_to_others(accounts: tuple[HostUser, HostUser], top: Path) -> None:
    fresh = restored(top, accounts[0], lambda member: setattr(member, "mode", 0o7777))
    for path in fresh.root.rglob("*"):
        if "sandboxes" not in path.parts:
            assert path.stat().st_mode & 0o7022 == 0, path
    for path in (fresh.secrets, *fresh.secrets.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (fresh.sandboxes / "1/0/input").stat().st_mode & 0o7000 == 0


def test_the_files_of_a_job_are_its_owners_whomever_the_archive_names(
    accounts: tuple[HostUser, HostUser], top: Path
) -> None:
    host.need(host.open_installation)
    mallory, bob = accounts
    pool = Pool(top / "pool", "NUM_CPUS = 2\n")
    try:
        pool.up()
        (sandbox, _), (other, _) = places = [(submitted(pool, who), who) for who in (bob, mallory)]
        assert (sandbox / "input").stat().st_uid == bob.uid
        pool.run("backup", "saved.tar.gz")
        pool.down()
        swapped = {bob.uid: mallory, mallory.uid: bob}

        def give(member: tarfile.TarInfo) -> None:
            who = swapped.get(member.uid, mallory)
            member.uid, member.gid = who.uid, who.gid

        archive = changed(pool.root / "saved.tar.gz", give)
        pool.home.root.rename(top / "former")
        pool.run("restore", str(archive))
        assert sandbox.stat().st_uid == 0 and sandbox.stat().st_mode & 0o077 == 0
        pool.up()
        for place, who in places:
            assert {path.stat().st_uid for path in (place, *place.rglob("*"))} == {who.uid}
            assert (place / "input").read_text() == who.name
        users = {path for path in pool.home.root.rglob("*") if path.lstat().st_uid in swapped}
        assert users and all(path.is_relative_to(sandbox) or path.is_relative_to(other) for path in users)
        assert not pool.home.restored.exists()
    finally:
        pool.destroy()


def submitted(pool: Pool, who: HostUser) -> Path:
    """The sandbox of a job that waits for ever, which ``who`` has submitted with an input."""
    place = who.home / "job"
    place.mkdir()
    (place / "input").write_text(who.name)
    (place / "job.sub").write_text(
        "executable = /bin/cat\narguments = input\ntransfer_executable = false\nrequirements = false\n"
        "should_transfer_files = yes\ntransfer_input_files = input\nqueue\n"
    )
    for path in (place, *place.iterdir()):
        os.chown(path, who.uid, who.gid)
    drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
    words = [*(opened() or []), *drop, sys.executable, "-m", "slotwise", "submit", "-spool", "-terse", "job.sub"]
    env = pool.env | {"HOME": str(who.home)}
    done = subprocess.run(words, env=env, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cluster = done.stdout.split()[0].split(".")[0]
    return pool.home.sandboxes / cluster / "0"

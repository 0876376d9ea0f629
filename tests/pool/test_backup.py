"""A pool is copied while it runs, and goes on from the copy in another directory."""

from __future__ import annotations

import contextlib
import io
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.cli.host import backup
from slotwise.client import Schedd
from slotwise.errors import HostError
from slotwise.home import PoolHome

from tests.support.pool import Pool


def test_a_restored_pool_has_queue_history_and_keys(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 2\n")
    pool.up()
    held = {"executable": "/bin/true", "transfer_executable": False, "hold": True}
    with Schedd(env=pool.env) as schedd:
        assert schedd.submit(held, 20).cluster == 1
        assert schedd.submit({**held, "hold": False}).cluster == 2
        pool.until("the end of job 2", lambda: schedd.history("ClusterId == 2"))
        token = pool.run("token", "create", "-identity", "alice@here", "-authz", "READ").stdout.strip()
        said = pool.run("backup", "saved.tar.gz").stdout
        assert "saved.tar.gz" in said and (pool.root / "saved.tar.gz").stat().st_mode & 0o077 == 0
        assert "is there already" in pool.run("backup", "saved.tar.gz", check=False).stderr
        assert "runs: master" in pool.run("restore", "saved.tar.gz", check=False).stderr
        schedd.submit(held)  # after the backup
    pool.down()
    assert "is not empty" in pool.run("restore", "saved.tar.gz", check=False).stderr
    shutil.rmtree(pool.home.root)
    restored = pool.run("restore", "saved.tar.gz").stdout
    assert "`slotwise up` starts the pool" in restored and "only when the pool that was copied is down" in restored
    assert pool.home.secrets.stat().st_mode & 0o077 == 0
    pool.up()
    with Schedd(env=pool.env, token=token) as schedd:  # signed with the key of before
        assert {ad["ClusterId"] for ad in schedd.query()} == {1} and len(schedd.query()) == 20
        assert len(schedd.history("ClusterId == 2")) == 1
    with Schedd(env=pool.env) as schedd:
        assert schedd.submit(held).cluster == 3


def test_spool_names_the_directory_of_the_queue_and_of_files_sent_with_jobs(
    make_pool: Callable[[str], Pool], open_directory: Path
) -> None:
    spool = open_directory / "there" / "spool"
    pool = make_pool(f"NUM_CPUS = 2\nSPOOL = {spool}\n")
    pool.up()
    (pool.root / "input").write_text("words of the job")
    description = "executable = /bin/cat\narguments = input\ntransfer_executable = false\nrequirements = false\n"
    description += "should_transfer_files = yes\ntransfer_input_files = input\nqueue\n"
    (pool.root / "job.sub").write_text(description)
    pool.run("submit", "-spool", "job.sub")
    held = {"executable": "/bin/true", "transfer_executable": False}
    with Schedd(env=pool.env) as schedd:
        schedd.submit(held)
        pool.until("the end of job 2", lambda: schedd.history("ClusterId == 2"))
    pool.until("the history's file is written", (spool / "history").exists)
    for name in ("schedd.sqlite", "accounting.db", "startd.sqlite", "history", "sandboxes"):
        assert (spool / name).exists(), name
        assert not (pool.home.root / "spool" / name).exists(), name
    sent = [path.relative_to(spool) for path in spool.rglob("input")]
    assert len(sent) == 1 and sent[0].parts[0] == "sandboxes"
    assert "1.0" in pool.run("q", "-nobatch").stdout
    assert "sandboxes" not in pool.run("preen").stdout
    pool.run("report", "usage")
    pool.run("backup", "saved.tar.gz")
    pool.down()
    assert "is not empty" in pool.run("restore", "saved.tar.gz", check=False).stderr
    shutil.rmtree(spool)
    shutil.rmtree(pool.home.root)
    pool.run("restore", "saved.tar.gz")
    assert (spool / sent[0]).read_text() == "words of the job"
    pool.up()
    with Schedd(env=pool.env) as schedd:
        assert {ad["ClusterId"] for ad in schedd.query()} == {1} and len(schedd.history("ClusterId == 2")) == 1


def test_a_spool_that_others_may_write_to_starts_no_daemon(
    make_pool: Callable[[str], Pool], open_directory: Path
) -> None:
    spool = open_directory / "spool"
    spool.mkdir()
    spool.chmod(0o777)
    pool = make_pool(f"NUM_CPUS = 2\nSPOOL = {spool}\n")
    refused = pool.run("up", check=False)
    assert refused.returncode == 1
    assert f"SPOOL names {spool}, which may be written to by others" in refused.stderr
    assert f"chmod go-w {spool}" in refused.stderr


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "other/file", "spool/../../outside"])
def test_a_file_that_is_no_backup_writes_nothing(tmp_path: Path, name: str) -> None:
    home = PoolHome(tmp_path / "home")
    (home.root / "spool").mkdir(parents=True)
    (home.spool / "queue").write_text("jobs")
    good, bad = tmp_path / "good.tar.gz", tmp_path / "bad.tar.gz"
    assert backup.write(home, good, 1.0) == 1
    with tarfile.open(good) as source, tarfile.open(bad, "w:gz") as target:
        for member in source:
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
        forged = tarfile.TarInfo(name)
        forged.size = 1
        target.addfile(forged, io.BytesIO(b"x"))
    fresh = PoolHome(tmp_path / "fresh")
    with pytest.raises(HostError, match="which no backup has"):
        backup.read(bad, fresh)
    assert not fresh.root.exists() and not (tmp_path / "outside").exists()
    link = tmp_path / "link.tar.gz"
    with tarfile.open(good) as source, tarfile.open(link, "w:gz") as target:
        head = source.next()
        assert head is not None
        target.addfile(head, source.extractfile(head))
        forged = tarfile.TarInfo("spool/link")
        forged.type, forged.linkname = tarfile.SYMTYPE, "/etc"
        target.addfile(forged)
    with pytest.raises(HostError, match="neither a file nor a directory"):
        backup.read(link, fresh)
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(HostError, match="cannot restore"):
        backup.read(tmp_path / "text", fresh)
    count, manifest = backup.read(good, fresh)
    assert (count, manifest.made_at, (fresh.spool / "queue").read_text()) == (1, 1.0, "jobs")


def test_files_of_users_are_copied_as_they_are_whatever_they_seem(tmp_path: Path) -> None:
    home, fresh, saved = PoolHome(tmp_path / "home"), PoolHome(tmp_path / "fresh"), tmp_path / "saved.tar.gz"
    sandbox = home.spool / "1" / "0"
    sandbox.mkdir(parents=True)
    garbage = b"SQLite format 3\0 and no more"
    (sandbox / "garbage").write_bytes(garbage)
    (sandbox / "..%2F..%2F..%2Fqueue.db").write_bytes(garbage)
    with contextlib.closing(sqlite3.connect(home.spool / "queue.db")) as database:
        database.execute("CREATE TABLE jobs (id)")
        database.commit()
        assert backup.write(home, saved, 1.0) == 3
    backup.read(saved, fresh)
    for name in ("garbage", "..%2F..%2F..%2Fqueue.db"):
        assert (fresh.spool / "1" / "0" / name).read_bytes() == garbage
    with contextlib.closing(sqlite3.connect(fresh.spool / "queue.db")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("jobs",)]

"""Checkpoints are deleted as the account that the job's files belong to: never as root, and never another user's."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import slotwise
from slotwise.clock import SystemClock
from slotwise.execution.keeper_spec import Identity
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.shadow import prepare_hooks
from slotwise.schedd.transfer.checkpoint_cleanup import CheckpointCleanup, CleanupSettings
from slotwise.schedd.transfer.checkpoint_folders import CheckpointFolder, folder_of
from slotwise.transfer import checkpoint_manifest

from tests.support.accounts import HostUser, host_users
from tests.support.waiting import until

LIBEXEC = Path(slotwise.__file__).parent / "libexec"
SUM = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def users() -> Iterator[tuple[HostUser, ...]]:
    """Two accounts of the host; each has a file of a checkpoint in its home, where nobody else has rights."""
    with host_users("mine", "other") as made:
        for user in made:
            user.run("mkdir -p job_1/0000 && touch job_1/0000/state")
        yield made


def file_of(user: HostUser) -> Path:
    """The file of a checkpoint in a user's home."""
    return user.home / "job_1" / "0000" / "state"


class Cleaner:
    """The clean-up of a schedd without jobs."""

    def __init__(self, root: Path, store: Path, program: str) -> None:
        self.root = root / "checkpoints"
        lines = root / "map"
        lines.write_text(f"* x://store {program},-prefix,\\0,-path,{store}\n")
        lines.chmod(0o644)
        self.threads = ThreadPoolExecutor(2)
        self.cleanup = CheckpointCleanup(
            self.root, store / ".ads", SystemClock(), self.threads, "nobody", lambda cluster, proc: False
        )
        self.cleanup.settings = CleanupSettings(str(lines), str(LIBEXEC))

    def left(self, cluster: int, account: str, place: str, *names: str) -> CheckpointFolder:
        """A job of an account has left that kept a checkpoint at a place."""
        folder = folder_of(self.root, cluster, 0)
        lines = "".join(f"{SUM} *{name}\n" for name in names).encode()
        own = f"{hashlib.sha256(lines).hexdigest()} *{checkpoint_manifest.name_of(0)}\n".encode()
        folder.keep(0, lines + own, place, account, "Owner = 1\n", good=True)
        return folder


@pytest.mark.filterwarnings("error")
async def test_a_user_deletes_nothing_of_another(users: tuple[HostUser, ...], tmp_path: Path) -> None:
    mine, other = users
    cleaner = Cleaner(tmp_path, mine.home.parent, "cleanup_locally_mounted_checkpoint")
    names = mine.home.name, other.home.name
    own = cleaner.left(1, mine.name, f"x://store/{names[0]}/job_1/0000/", "state")
    foreign = cleaner.left(2, mine.name, f"x://store/{names[1]}/job_1/0000/", "state")
    leads_out = cleaner.left(3, mine.name, f"x://store/{names[0]}/job_2/0000/", f"../../../{names[1]}/job_1/0000/state")
    of_root = cleaner.left(4, "root", f"x://store/{names[1]}/job_1/0000/", "state")
    of_nobody = cleaner.left(5, "", f"x://store/{names[1]}/job_1/0000/", "state")
    task = asyncio.get_running_loop().create_task(cleaner.cleanup.run())
    try:
        await until(lambda: not own.path.exists() and not leads_out.path.exists(), "what can be deleted is")
        await until(lambda: len(cleaner.cleanup._failed) == 3, "the rest was tried")
    finally:
        task.cancel()
        cleaner.threads.shutdown()
        shutil.rmtree(mine.home.parent / ".ads", ignore_errors=True)
    assert not file_of(mine).exists() and not (mine.home / "job_1").exists()
    assert file_of(other).exists()
    assert foreign.path.exists() and of_root.path.exists() and of_nobody.path.exists()


async def test_a_program_that_the_user_may_write_is_not_run(users: tuple[HostUser, ...], tmp_path: Path) -> None:
    mine, _ = users
    mine.run("printf '#!/bin/sh\\ntouch %s/ran\\n' $HOME > tool && chmod 755 tool")
    cleaner = Cleaner(tmp_path, mine.home.parent, str(mine.home / "tool"))
    folder = cleaner.left(1, mine.name, "x://store/a/0000/", "state")
    task = asyncio.get_running_loop().create_task(cleaner.cleanup.run())
    try:
        await until(lambda: cleaner.cleanup._failed, "it was tried")
    finally:
        task.cancel()
        cleaner.threads.shutdown()
        shutil.rmtree(mine.home.parent / ".ads", ignore_errors=True)
    assert folder.path.exists() and not (mine.home / "ran").exists()


async def test_programs_get_no_token_of_who_started_the_schedd(
    users: tuple[HostUser, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run as the job's owner, whose other processes read in /proc what they are given."""
    monkeypatch.setenv("BEARER_TOKEN", "hidden-token")
    monkeypatch.setenv("SITE_SETTING", "wanted")
    mine, _ = users
    tool = mine.home.parent / "tool"
    tool.write_text("#!/bin/sh\nenv > $HOME/told.new && mv $HOME/told.new $HOME/told\n")
    tool.chmod(0o755)
    cleaner = Cleaner(tmp_path, mine.home.parent, str(tool))
    folder = cleaner.left(1, mine.name, "x://store/a/0000/", "state")
    task = asyncio.get_running_loop().create_task(cleaner.cleanup.run())
    try:
        await until(lambda: not folder.path.exists(), "the program has run")
    finally:
        task.cancel()
        cleaner.threads.shutdown()
        shutil.rmtree(mine.home.parent / ".ads", ignore_errors=True)
    told = (mine.home / "told").read_text()
    assert "SITE_SETTING=wanted" in told and "hidden-token" not in told
    assert prepare_hooks._environment(Identity()).keys() >= {"SITE_SETTING"}
    assert "BEARER_TOKEN" not in prepare_hooks._environment(Identity())


async def test_after_the_first_look_only_jobs_that_it_is_told_of_are_looked_at(
    users: tuple[HostUser, ...], tmp_path: Path
) -> None:
    mine, _ = users
    cleaner = Cleaner(tmp_path, mine.home.parent, "cleanup_locally_mounted_checkpoint")
    place = f"x://store/{mine.home.name}/job_1/0000/"
    before = cleaner.left(1, mine.name, place, "state")
    task = asyncio.get_running_loop().create_task(cleaner.cleanup.run())
    try:
        await until(lambda: not before.path.exists(), "what an earlier schedd left is found")
        untold, told = (cleaner.left(number, mine.name, place) for number in (2, 3))
        jobs = [Job(Cluster(number, "a", "a@here", "a@here", 0, {}), 0, Status.COMPLETED) for number in (3, 4)]
        cleaner.cleanup.soon(jobs)
        await until(lambda: not told.path.exists(), "the job's checkpoints are deleted")
    finally:
        task.cancel()
        cleaner.threads.shutdown()
        shutil.rmtree(mine.home.parent / ".ads", ignore_errors=True)
    assert untold.path.exists()

"""A starter of root's runs what the startd of its home tells it to, and nobody else: it may do that as any account."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from slotwise.daemon.starter_key import shown_to_starter
from slotwise.errors import DeniedError
from slotwise.wire import address, keys, socket_path
from slotwise.wire.credential import PROOF, Metadata, bearer
from slotwise.wire.gen import starter_pb2, starter_pb2_grpc
from slotwise.wire.keys import STARTER, PoolSecrets, SigningKey
from slotwise.wire.login import obtain

from tests.support import host
from tests.support.accounts import host_users
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

pytestmark = [pytest.mark.host, host.needs(host.root)]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """One whose lists give DAEMON away, as configurations of HTCondor's do."""
    pool = Pool(tmp_path_factory.mktemp("pool"), "ALLOW_WRITE = *\nALLOW_DAEMON = $(ALLOW_WRITE)\nALLOW_DEFAULT = *\n")
    try:
        pool.up()
        pool.until("the startd has its starter", lambda: (pool.home.run / "starter.pem").exists())
        yield pool
    finally:
        pool.destroy()


def starter_of(pool: Pool) -> str:
    return address.lookup(pool.home, "starter").local


def refusal(pool: Pool, shown: Metadata) -> str:
    """How the starter answers who asks for its runs and wants another one started; empty where it obeys."""
    commands = [
        starter_pb2.JobCommand(list=starter_pb2.ListJobs()),
        starter_pb2.JobCommand(run_id="x", start=starter_pb2.StartJob(slot_name="slot1", fetched_for="bob@here")),
    ]
    target = socket_path.usable_target(starter_of(pool))
    with grpc.insecure_channel(target, options=[("grpc.default_authority", "slotwise")]) as channel:
        try:
            next(starter_pb2_grpc.StarterStub(channel).Jobs(iter(commands), metadata=shown, timeout=LIMIT_S))
        except grpc.RpcError as error:
            return str(error.code().name)
    return ""


def test_a_login_as_root_is_not_enough(pool: Pool) -> None:
    path = socket_path.usable(starter_of(pool).removeprefix("unix:"))
    assert refusal(pool, bearer(obtain(path))) == "PERMISSION_DENIED"
    assert refusal(pool, ()) == "UNAUTHENTICATED"


@pytest.mark.parametrize("scope", ["DAEMON", "ADMINISTRATOR", "ADVERTISE_STARTD"])
def test_no_level_is_enough(pool: Pool, scope: str) -> None:
    path = pool.root / f"{scope}.token"
    pool.run("token", "create", "--identity", "condor@here", "--scope", scope, "--file", str(path))
    assert refusal(pool, bearer(path.read_text().strip())) == "PERMISSION_DENIED"
    assert pool.run("token", "create", "--identity", "x@here", "--scope", STARTER, check=False).returncode


@pytest.mark.parametrize("scope", ["DAEMON", STARTER])
def test_the_key_of_the_host_is_not_enough(pool: Pool, scope: str) -> None:
    """Daemons that have given up root can read it."""
    key, target = PoolSecrets(pool.home).host_key(), starter_of(pool)
    shown = keys.mint(key, "condor@here", [scope], issued_at=time.time(), audience=target, typ=PROOF)
    assert refusal(pool, bearer(shown)) == "PERMISSION_DENIED"
    run = keys.mint(PoolSecrets(pool.home).access_point_key(), "run@x", [STARTER], issued_at=time.time())
    assert refusal(pool, bearer(run)) == "UNAUTHENTICATED"
    own = keys.mint(SigningKey.generate(), "condor@startd", [STARTER], issued_at=time.time())
    assert refusal(pool, bearer(own)) == "UNAUTHENTICATED"


def test_what_the_startd_shows_nobody_else_can_make(pool: Pool, tmp_path: Path) -> None:
    with host_users("mallory") as (mallory,):
        tried = mallory.run(f"cat {pool.home.run}/starter.pem", check=False)
        assert tried.returncode and not tried.stdout
        # Where another account can write to the directory, its key in the place of the starter's is not used.
        home = pool.home.__class__(tmp_path)
        home.run.mkdir(parents=True)
        planted = home.run / "starter.pem"
        planted.write_text(SigningKey.generate().pem())
        planted.chmod(0o600)
        os.chown(planted, mallory.uid, mallory.gid)
        with pytest.raises(DeniedError, match="belongs to uid"):
            shown_to_starter(home, starter_of(pool))
    assert refusal(pool, shown_to_starter(pool.home, starter_of(pool))) == ""

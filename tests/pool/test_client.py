"""slotwise.client against real daemons: each of them, of this host and from elsewhere, blocking and with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.client import (
    AsyncCollector,
    AsyncNegotiator,
    AsyncSchedd,
    AsyncStartd,
    Collector,
    JobStatus,
    Negotiator,
    Schedd,
    Startd,
)
from slotwise.client.descriptions import ReadOptions
from slotwise.client.spool import Progress
from slotwise.client.startd import Drain
from slotwise.errors import (
    BusyError,
    DeniedError,
    NotFoundError,
    PeerUnavailableError,
    SlotwiseError,
    SubmitError,
    UsageError,
)
from slotwise.wire import address

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S, until

WAITS = {"executable": "/bin/true", "transfer_executable": False, "requirements": "false"}


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Iterator[Pool]:
    made = make_pool("NUM_CPUS = 4\nSLOTWISE_ALLOW_CLEARTEXT = True\n")
    made.up()
    yield made


def test_each_daemon_of_this_host(pool: Pool) -> None:
    with Collector(env=pool.env) as collector:
        pool.until("a slot in the collector", lambda: collector.query("startd", projection=["Name"]))
        daemons = {"Machine", "Scheduler", "Negotiator", "DaemonMaster"}
        pool.until("an ad of each daemon", lambda: {ad["MyType"] for ad in collector.query()} >= daemons)
        assert collector.query("schedd", "false") == []
        found = collector.locate("schedd")
        assert found is not None and found.address == address.lookup(pool.home, "schedd").target
        assert [found.name] == [each.name for each in collector.locate_all("schedd")]
        assert collector.locate("schedd", "nobody@nowhere") is None
        with pytest.raises(NotFoundError, match="no daemons of the kind"):
            collector.locate("gatekeeper")

        assert collector.advertise([ClassAd({"Name": "one", "Number": 1}), ClassAd({"Name": "two"})], "Thing") == []
        assert collector.advertise([ClassAd({"Name": "one", "More": 2})], "Thing", merge=True) == []
        assert [(ad["Number"], ad["More"]) for ad in collector.query("Thing", "Number == 1")] == [(1, 2)]
        (refused,) = collector.advertise([ClassAd({"Name": "three"})], "Thing", merge=True)
        assert "three" in refused
        with pytest.raises(SlotwiseError, match="no Name"):
            collector.advertise([ClassAd({"Number": 1})])
        assert collector.invalidate("Thing", ["one"]) == 1
        assert collector.invalidate("Thing", constraint="true") == 1

    with Negotiator(env=pool.env) as negotiator:
        negotiator.set("alice@here", "factor", 20)
        negotiator.set("alice@here", "usage", 3600)
        (alice,) = [ad for ad in negotiator.accounting() if ad["Name"] == "alice@here"]
        assert (alice["PriorityFactor"], alice["WeightedAccumulatedUsage"]) == (20, 3600)
        negotiator.reset_usage("alice@here")
        negotiator.delete("alice@here")
        assert "alice@here" not in {ad["Name"] for ad in negotiator.accounting()}
        with pytest.raises(UsageError, match="no setting 'colour'"):
            negotiator.set("alice@here", "colour", 1)
        negotiator.reschedule()

    with Startd(env=pool.env) as startd:
        (slot,) = startd.slots("SlotID == 1", ["Name", "State", "Cpus"])
        assert (slot["State"], slot["Cpus"]) == ("Unclaimed", 4)
        startd.update_machine_ad(ClassAd({"Rack": 7}))
        assert startd.slots("Rack == 7")
        request_id = startd.drain(Drain(schedule="fast", reason="maintenance"))
        assert startd.slots('Draining && DrainReason == "maintenance"')
        startd.cancel_drain(request_id)
        startd.vacate(fast=True)


def test_a_pool_from_elsewhere(pool: Pool, make_pool: Callable[[str], Pool]) -> None:
    elsewhere = make_pool("SLOTWISE_ALLOW_CLEARTEXT = True\n")  # has no daemons of its own
    token = pool.run("token", "create", "--identity", "eve@dom", "--scope", "WRITE").stdout.strip()
    at = address.lookup(pool.home, "collector").tcp
    with pytest.raises(PeerUnavailableError):
        Schedd(env=elsewhere.env)
    with Collector(pool=at, token=token, env=elsewhere.env) as collector:
        found = collector.locate("schedd")
        assert found is not None
    with Schedd(pool=at, name=found.name, token=token, env=elsewhere.env) as schedd:
        made = schedd.submit(WAITS, count=2)
    with Schedd(address=f"<{found.address}?x=1>", token=token, env=elsewhere.env) as schedd:
        assert len(schedd.query(f"ClusterId == {made.cluster}")) == 2
        assert schedd.totals().everyone.idle == 2
        assert schedd.act("remove", str(made.cluster)).succeeded == 2
    with pytest.raises(NotFoundError, match="no schedd named other"):
        Schedd(pool=at, name="other", token=token, env=elsewhere.env)
    with Negotiator(pool=at, token=token, env=elsewhere.env) as negotiator:
        assert isinstance(negotiator.accounting(), list)


def _spooled(directory: Path) -> dict[str, object]:
    directory.mkdir()
    (directory / "input").write_text("what was sent\n")
    return {
        "executable": "/bin/cp", "transfer_executable": False, "arguments": "input result", "initialdir": directory,
        "transfer_input_files": "input", "should_transfer_files": "YES",
    }  # fmt: skip


def test_spooled_files_go_and_come_back(pool: Pool, tmp_path: Path) -> None:
    place = tmp_path / "one"
    told: list[Progress] = []
    with Schedd(env=pool.env) as schedd:
        made = schedd.submit(_spooled(place), options=ReadOptions(spool=True))
        assert [ad["JobStatus"] for ad in schedd.query(f"ClusterId == {made.cluster}")] == [5]
        schedd.spool(made, told.append)
        assert told[-1] == Progress(1, len("what was sent\n"), "input")
        pool.until("the job's end", lambda: schedd.query(f"ClusterId == {made.cluster} && JobStatus == 4"))
        assert schedd.retrieve(str(made.cluster), progress=told.append) == told[-1].files >= 1
        lost = schedd.submit(_spooled(tmp_path / "two"), options=ReadOptions(spool=True))
        (tmp_path / "two" / "input").unlink()
        with pytest.raises(SubmitError, match="input"):
            schedd.spool(lost)
        assert [ad["JobStatus"] for ad in schedd.query(f"ClusterId == {lost.cluster}")] == [5]
        schedd.act("remove", str(lost.cluster))
    assert (place / "result").read_text() == "what was sent\n"


async def test_spooled_files_go_and_come_back_with_asyncio(pool: Pool, tmp_path: Path) -> None:
    place = tmp_path / "one"
    told: list[Progress] = []
    async with AsyncSchedd(env=pool.env) as schedd:
        made = await schedd.submit(_spooled(place), options=ReadOptions(spool=True))
        await schedd.spool(made, told.append)
        assert told[-1] == Progress(1, len("what was sent\n"), "input")
        await until(lambda: schedd.query(f"ClusterId == {made.cluster} && JobStatus == 4"), "the job has run")
        assert await schedd.retrieve(str(made.cluster), progress=told.append) == told[-1].files >= 1
        lost = await schedd.submit(_spooled(tmp_path / "two"), options=ReadOptions(spool=True))
        (tmp_path / "two" / "input").unlink()
        with pytest.raises(SubmitError, match="input"):
            await schedd.spool(lost)
        await schedd.act("remove", str(lost.cluster))
    assert (place / "result").read_text() == "what was sent\n"


def test_records_of_users(pool: Pool) -> None:
    with Schedd(env=pool.env) as schedd:
        domain = str(schedd.users()[0]["User"]).partition("@")[2] if schedd.users() else "here"
        assert schedd.edit_users("add", [f"bob@{domain}"]) == 1
        assert schedd.edit_users("disable", [f"bob@{domain}"], reason="away") == 1
        (bob,) = schedd.users(f'User == "bob@{domain}"')
        assert bob["Enabled"] is False
        with pytest.raises(UsageError, match="no change 'promote'"):
            schedd.edit_users("promote", ["bob"])


async def test_the_same_with_asyncio(pool: Pool) -> None:
    async with (
        AsyncCollector(env=pool.env) as collector,
        AsyncNegotiator(env=pool.env) as negotiator,
        AsyncStartd(env=pool.env) as startd,
    ):
        slots, priorities, own = await asyncio.gather(
            collector.query("schedd"), negotiator.accounting(), startd.slots(projection=["Name"])
        )
        assert len(slots) == 1 and isinstance(priorities, list) and own
        assert await collector.advertise([ClassAd({"Name": "one"})], "Thing") == []
        assert await collector.invalidate("Thing", ["one"]) == 1
        await negotiator.set("alice@here", "factor", 20)
        await negotiator.delete("alice@here")
        await startd.cancel_drain(await startd.drain())
        found = await collector.locate("schedd")
        assert found is not None
    async with AsyncSchedd(address=found.address, env=pool.env) as schedd:
        made = await schedd.submit(WAITS, count=3)
        assert len(await schedd.query(f"ClusterId == {made.cluster}", ["ProcId"])) == 3
        assert (await schedd.totals()).mine.jobs == 3
        assert (await schedd.edit(str(made.cluster), {"JobPrio": 5})).succeeded == 3
        assert (await schedd.act("remove", [str(made.cluster)])).succeeded == 3


async def test_histories_that_daemons_keep_of_themselves(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("SLOTWISE_ALLOW_CLEARTEXT = True\nSTARTD_HISTORY = $(LOG)/startd_history\n")
    pool.up()
    path = Path(pool.run("config", "val", "STARTD_HISTORY").stdout.strip())
    path.write_text("".join(f"ClusterId = {n}\nProcId = 0\n*** ClusterId = {n}\n" for n in (1, 2, 3)))
    async with AsyncStartd(env=pool.env) as startd:
        assert [ad["ClusterId"] for ad in await startd.history("ClusterId != 2", since="ClusterId < 1")] == [3, 1]
    with Startd(env=pool.env) as startd:
        assert [list(ad.keys()) for ad in startd.history(projection=["ProcId"], limit=1)] == [["ProcId"]]
    with Schedd(env=pool.env) as schedd:
        assert all(ad["MyType"] == "Scheduler" for ad in schedd.daemon_history(limit=1))
    host = str(pool.until("a slot", lambda: pool.run("status", "-af", "Machine").stdout.strip()))
    asked = ("history", "-startd", "-name", host, "-af", "ClusterId")
    assert pool.run(*asked, "-since", "1").stdout == "3\n2\n"
    assert pool.run(*asked, "-forwards", "-limit", "1", "2", "3").stdout == "2\n"
    assert "has none" in pool.run(*asked, "-type", "EPOCH", check=False).stderr
    at = address.lookup(pool.home, "startd").tcp
    token = pool.run("token", "create", "--identity", "eve@dom", "--scope", "READ").stdout.strip()
    with Startd(address=at, token=token, env=pool.env) as startd, pytest.raises(DeniedError):
        startd.history()


def test_waiting_for_jobs_until_they_have_ended(pool: Pool) -> None:
    asks = {"executable": "/bin/sh", "request_memory": "10M", "request_disk": "1M", "transfer_executable": False}
    with Schedd(env=pool.env) as schedd:
        done = schedd.submit(asks | {"arguments": "\"-c 'exit $(Process)'\""}, count=3)
        codes = {ad["ProcId"]: ad["ExitCode"] for ad in schedd.wait(done, ["ExitCode"], timeout_s=LIMIT_S)}
        assert codes == {0: 0, 1: 1, 2: 2}
        assert [ad["ProcId"] for ad in schedd.wait(f"{done.cluster}.2", timeout_s=LIMIT_S)] == [2]

        held = schedd.submit(WAITS | {"hold": True})
        with pytest.raises(BusyError, match=f"1 of the jobs is held .job {held.cluster}.0: submitted on hold"):
            schedd.wait([str(held.cluster)])
        with pytest.raises(TimeoutError, match="1 jobs have not ended"):
            schedd.wait(held, timeout_s=0, through_holds=True)
        schedd.act("remove", str(held.cluster))
        (removed,) = schedd.wait(held, timeout_s=LIMIT_S)
        assert removed["JobStatus"] == JobStatus.REMOVED

    async def of_asyncio() -> list[ClassAd]:
        async with AsyncSchedd(env=pool.env) as schedd:
            return await schedd.wait(await schedd.submit(asks | {"arguments": "-c true"}), timeout_s=LIMIT_S)

    (ended,) = asyncio.run(of_asyncio())
    assert ended["JobStatus"] == JobStatus.COMPLETED

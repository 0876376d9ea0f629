"""An exception while the startd processes a message ends the claim that it is about: no slot, claim or run stays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.classad import ClassAd
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.host.hook_calls import REPLY_FETCH, HookCall
from slotwise.startd.service import _Session
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, starter_pb2

from tests.support.injection import Injection
from tests.support.startd_host import Host, Schedd, job_ad, schedd_at, startd_host
from tests.support.waiting import until

_SCHEDD_SAYS = ("hello", "request", "activate", "suspend", "keep_alive", "deactivate", "release")
_STARTER_SAYS = ("gone", "refused", "usage", "jobs")
#: A fault is raised at every so manieth call; SLOTWISE_FAULT_STEP=1 tries all of them.
_STEP = int(os.environ.get("SLOTWISE_FAULT_STEP", "8"))


def inject(monkeypatch: pytest.MonkeyPatch, injection: Injection, kind: str) -> None:
    """Put faults into what the startd does with a kind of message, or on its way to others."""
    who, _, what = kind.partition(" ")
    owner, name = {
        "schedd": (_Session, "_handle"),
        "starter": (Dispatcher, "_starter_report"),
        "save": (Dispatcher, "_save"),
        "command": (Dispatcher, "_to_starter"),
        "message": (Dispatcher, "_claim_message"),
        "follow": (Dispatcher, "_follow"),
    }[who]

    def when(*args: Any, **named: Any) -> bool:
        return not what or args[1].WhichOneof("what") == what

    plain = getattr(owner, name)
    wrapped = injection.wrapped(plain, when)
    monkeypatch.setattr(owner, name, lambda *args: wrapped(*args))


def is_whole(host: Host) -> bool:
    """Whether the machine is as it was before there were claims."""
    point = host.point
    (slot, *others) = point.slots
    return not others and slot.free == slot.total and slot.slot.claim is None and not point.slots.by_run


async def use(host: Host, schedd: Schedd, number: int, *, refuse: bool) -> list[str]:
    """Two claims, a job on each, all that may be said of them, and their end; the runs that were activated."""
    asked = startd_pb2.RequestClaim(
        job_ad=job_ad(), num_dynamic_slots=2, lease_s=1200, submitter="ann@test", user="ann@test"
    )
    granted = (await schedd.answer(await schedd.send(host.capability(), request=asked))).granted
    claims = [slot.claim_id for slot in granted.slots]
    runs = []
    for place, claim_id in enumerate(claims):
        run_id = f"{number}.{place}#1"
        answer = await schedd.answer(await schedd.send_activate(claim_id, run_id))
        runs += [run_id] if answer.WhichOneof("what") == "activated" else []
    usage = common_pb2.AdBatch(pack=pack_ads([ClassAd({"RemoteUserCpu": 1.5, "ResidentSetSize": 100})]))
    for run_id in runs:
        host.starter.tell(starter_pb2.JobEvent(run_id=run_id, usage=usage))
    for claim_id in claims:
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim())
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim(resume=True))
    await schedd.send(keep_alive=startd_pb2.KeepAlive(claim_ids=claims))
    if refuse and runs:
        host.starter.runs.pop(runs[0], None)
        refused = starter_pb2.JobRefused(reason="the command could not be understood")
        host.starter.tell(starter_pb2.JobEvent(run_id=runs.pop(0), refused=refused))
    for claim_id in claims[:1]:
        await schedd.send(claim_id, deactivate=startd_pb2.DeactivateClaim(fast=True))
    for run_id in runs:
        host.starter.gone(run_id)
    for claim_id in claims:
        await schedd.send(claim_id, release=startd_pb2.ReleaseClaim())
    return runs


async def settle(host: Host, tried: str) -> None:
    def settled() -> bool:
        for run_id in list(host.starter.runs):  # those that are asked to leave softly do
            if any(command.run_id == run_id for command in host.starter.told("kill")):
                host.starter.gone(run_id)
        return is_whole(host)

    await until(settled, f"whole again after {tried}: {host.point.slots.names()}, {host.starter.runs}")
    host.point.validate()


# A fault may hit a generator while it is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "kind",
    [
        *(f"schedd {what}" for what in _SCHEDD_SAYS),
        *(f"starter {what}" for what in _STARTER_SAYS),
        "save",
        "command",
        "message",
        "follow",
    ],
)
async def test_an_exception_at_any_point_leaves_nothing_behind(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    injection = Injection("/slotwise/startd/", ("dispatcher.py Dispatcher.flush",))
    inject(monkeypatch, injection, kind)
    monkeypatch.setattr("slotwise.startd.dispatcher._LIST_AGAIN_S", 0.02)
    async with startd_host(tmp_path) as host:
        number, tried = 0, list[str]()

        async def once() -> list[str]:
            nonlocal number
            number += 1
            runs = []
            with contextlib.suppress(ConnectionError, asyncio.InvalidStateError):
                async with schedd_at(host, f"schedd{number}@ap") as schedd:
                    runs = await use(host, schedd, number, refuse=kind == "starter refused")
                    if kind == "starter jobs":
                        host.startd.dispatcher._ask_for_list()
                        await until(
                            lambda: host.startd.dispatcher._listing is None, "the starter has said what it runs"
                        )
                    await settle(host, tried[-1] if tried else "")
                    return runs
            async with schedd_at(host, f"schedd{number}@ap"):  # says that it holds nothing
                await settle(host, tried[-1] if tried else "")
            return runs

        await once()
        assert injection.most > 0, "the message did not come"
        for at in range(0 if kind.startswith("schedd") else 1, injection.most, _STEP):
            injection.arm(at)
            tried.append(f"{kind} {at}")
            await once()
            tried[-1] += f" {injection.raised}"
        injection.at = None
        assert len(await once()) == 2 - (kind == "starter refused")


async def test_a_journal_that_cannot_be_written_keeps_nobody_from_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        save, failing = host.startd.journal._db, True

        class Full:
            in_transaction = False

            def __getattr__(self, name: str) -> Any:
                if failing and name in ("execute", "executemany"):
                    raise sqlite3.OperationalError("database or disk is full")
                return getattr(save, name)

        host.startd.journal._db = Full()  # type: ignore[assignment]
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        assert (await schedd.activate(claim_id, "1.0#1")).activated.run_id == "1.0#1"
        await until(lambda: "1.0#1" in host.starter.runs)
        dispatcher = host.startd.dispatcher
        told, settled = list[HookCall](), list[str]()
        dispatcher.connect(replace(dispatcher.recipients, run_hook=told.append, fetches_saved=settled.extend))
        dispatcher.point.outbox.hooks.append(HookCall("f1.reply", REPLY_FETCH, "slot1@host", "Q", b"", ("accept",), ""))
        dispatcher.point.outbox.fetched.append("f0")
        dispatcher.flush()
        assert not told and not settled, "hooks hear of what a restart does not forget"
        failing = False
        host.startd.dispatcher.flush()
        assert {kept.name.partition("@")[0] for kept in host.startd.journal.load()} >= {"slot1_1"}
        assert [call.call_id for call in told] == ["f1.reply"] and settled == ["f0"], "once they are in the journal"
        assert [call.call_id for call in host.startd.journal.calls()] == ["f1.reply"]
        host.starter.gone("1.0#1")
        await until(lambda: schedd.states(claim_id).count("Claimed/Idle") == 1)

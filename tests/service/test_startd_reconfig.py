"""What a reconfig of the startd takes over, what waits for a restart, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.config import load
from slotwise.errors import ConfigError

from tests.support.fake_collector import FakeCollector
from tests.support.startd_host import DeafJournal, schedd_at, startd_host, write_config
from tests.support.waiting import until


async def test_reconfig_takes_policy_at_once_and_warns_about_layout(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        former = host.capability()
        write_config(host.home, 'START = TARGET.Owner == "bob"\nSTARTD_ATTRS = Rack\nRack = "r7"\n')
        config = load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
        assert await host.startd.reconfig(config) == []
        assert host.capability() != former
        assert (await schedd.claim(host.capability())).WhichOneof("what") == "refused"
        assert next(iter(host.point.slots)).ad["Rack"] == "r7"
        write_config(host.home, 'NUM_SLOTS = 2\nSTARTD_ATTRS = Rack\nRack = "r8"\n')
        changed = load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
        assert "restart" in (await host.startd.reconfig(changed))[0]
        write_config(host.home, 'STARTD_ATTRS = Rack\nRack = "r8"\nSTARTD_CRON_JOBLIST = look\n')
        config = load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
        (warning,) = await host.startd.reconfig(config)
        assert "look does not run" in warning
        for wrong, named in (
            ("PREEMPT = ((", "PREEMPT"),
            ("SLOT1_KILL = ((", "SLOT1_KILL"),
            ("MODIFY_REQUEST_EXPR_REQUESTMEMORY = quantize(", "MODIFY_REQUEST_EXPR_REQUESTMEMORY"),
            ("CONSUMPTION_POLICY = true\nCONSUMPTION_DISK = quantize(", "CONSUMPTION_DISK"),
            ("SLOT_TYPE_1 = cpus=many\nNUM_SLOTS_TYPE_1 = 1", "SLOT_TYPE_1"),
        ):
            write_config(host.home, wrong + "\n")
            with pytest.raises(ConfigError, match=named):
                await host.startd.reconfig(
                    load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
                )
        assert next(iter(host.point.slots)).ad["Rack"] == "r8"


async def test_a_reconfig_knows_the_slots_it_has_whatever_became_of_their_devices(tmp_path: Path) -> None:
    knobs = (
        'MACHINE_RESOURCE_GPUs @=end\nDetectedGPUs = "A, B"\nA_Size = 1\nB_Size = 2\n@end\n'
        "SLOT_TYPE_1 = cpus=1, GPUs=1:Size>1\nNUM_SLOTS_TYPE_1 = 1\nSTARTD_ATTRS = Rack\nRack = 7\n"
    )
    async with startd_host(tmp_path, knobs) as host:
        (record,) = host.point.slots
        assert record.total.devices == {"GPUs": ("B",)} and record.ad["Rack"] == 7
        write_config(host.home, knobs + "OFFLINE_MACHINE_RESOURCE_GPUs = B\nSLOT_TYPE_1_Rack =\n")
        config = load(str(host.home.root / "condor_config"), subsystem="STARTD", env={}, home=host.home)
        assert await host.startd.reconfig(config) == []
        assert "Rack" not in record.ad


async def test_a_reconfig_to_an_owner_expression_without_value_changes_nothing(tmp_path: Path) -> None:
    async with startd_host(tmp_path, "IS_OWNER = KeyboardIdle < 60 || CpuIsBusy\nRANK = 7\n") as host:
        for text in ("IS_OWNER = NoSuchAttribute\nRANK = 8\n", "IS_OWNER = (\nRANK = 8\n"):
            fresh = load(str(write_config(host.home, text)), subsystem="STARTD", env={}, home=host.home)
            with pytest.raises(ConfigError, match="IS_OWNER"):
                await host.startd.reconfig(fresh)
            assert host.point.settings.policy(1, 0).texts["RANK"] == "7"
        fresh = load(
            str(write_config(host.home, "IS_OWNER = Fits\nSTARTD_ATTRS = Fits\nFits = Memory < 0\n")),
            subsystem="STARTD", env={}, home=host.home,
        )  # fmt: skip
        await host.startd.reconfig(fresh)
        assert host.place("slot1") == "Unclaimed/Idle"


async def test_slots_that_a_fresh_layout_has_no_more_leave_the_collector_too(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        gone = f"slot1_1@{host.point.settings.name}"
        host.startd.dispatcher.journal = DeafJournal()  # it is killed
        clock, starter, runs, collector = host.clock, host.starter, dict(host.starter.runs), FakeCollector()
    starter.runs = runs
    collector.public.upsert(gone, ClassAd({"Name": gone}))
    async with startd_host(tmp_path, "NUM_SLOTS = 2\n", clock=clock, starter=starter, collector=collector) as host:
        await until(lambda: f"slot2@{host.point.settings.name}" in collector.public, "the new slots are told")
        assert gone not in collector.public
        await until(lambda: {command.run_id for command in starter.told("forget")} == {"1.0#1"}, "its run is ended")

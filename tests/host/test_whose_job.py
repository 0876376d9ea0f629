"""A job runs as the account of the user that the access point names, whatever the job's ad says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.accounts import host_users
from tests.support.starter_bench import starter_bench

pytestmark = pytest.mark.host


async def test_an_ad_that_names_another_owner_gets_none_of_their_rights(root: None) -> None:
    with host_users("victim", "mallory") as (victim, mallory):
        secret = victim.home / "secret"
        secret.write_text("x")
        secret.chmod(0o600)
        async with starter_bench(UID_DOMAIN="here", STARTER_ALLOW_RUNAS_OWNER=True) as bench:
            run = bench.submit(
                "/bin/sh", "-c", f"id -un; cat {secret}; grep -E '^(Owner|User|OsUser) ' $_CONDOR_JOB_AD",
                slot={"UidDomain": "here"}, User=f"{mallory.name}@here", Owner=victim.name, OsUser=victim.name,
            )  # fmt: skip
            await bench.ended(run)
            said = bench.output(run).splitlines()
            assert said[0] == mallory.name
            assert sorted(said[1:]) == [
                f'OsUser = "{mallory.name}"', f'Owner = "{mallory.name}"', f'User = "{mallory.name}@here"',
            ]  # fmt: skip


async def test_a_hook_does_not_change_whose_job_it_is(root: None) -> None:
    with host_users("victim", "mallory") as (victim, mallory):
        hook = victim.home.parent / "prepare"
        hook.write_text(f"#!/bin/sh\ncat > /dev/null\necho 'Owner = \"{victim.name}\"'\necho 'Seen = true'\n")
        hook.chmod(0o755)
        knobs: dict[str, Any] = {"STARTER_JOB_HOOK_KEYWORD": "X", "X_HOOK_PREPARE_JOB": hook, "UID_DOMAIN": "here"}
        async with starter_bench(**knobs) as bench:
            run = bench.submit(
                "/bin/sh", "-c", "id -un; grep -E '^(Owner|Seen) ' $_CONDOR_JOB_AD | sort",
                slot={"UidDomain": "here"}, User=f"{mallory.name}@here", Owner=mallory.name,
            )  # fmt: skip
            await bench.ended(run)
            assert bench.output(run).splitlines() == [mallory.name, f'Owner = "{mallory.name}"', "Seen = true"]


@pytest.mark.parametrize(
    ("knob", "ad", "as_owner"),
    [
        ("TARGET.Trusted =?= True", {"Trusted": True}, True),
        ("TARGET.Trusted =?= True", {}, False),
        ("MY.OwnAccounts && TARGET.Owner != TARGET.Stranger", {"Stranger": "bob"}, True),
        ("MY.OwnAccounts && TARGET.Owner != TARGET.Stranger", {}, False),  # undefined
        ("MY.OwnAccounts", {"RunAsOwner": False}, False),
        ("MY.OwnAccounts", {"OwnAccounts": False}, True),  # the machine's word counts, not the job's
    ],
)
async def test_who_runs_as_owner_is_an_expression_over_machine_and_job(
    knob: str, ad: dict[str, Any], as_owner: bool, root: None
) -> None:
    with host_users("ann", "slot") as (ann, slot):
        async with starter_bench(UID_DOMAIN="here", STARTER_ALLOW_RUNAS_OWNER=knob, SLOT1_USER=slot.name) as bench:
            machine = {"UidDomain": "here", "OwnAccounts": True}
            run = bench.submit("/bin/sh", "-c", "id -un", slot=machine, User=f"{ann.name}@here", Owner=ann.name, **ad)
            await bench.ended(run)
            assert bench.output(run).strip() == (ann if as_owner else slot).name

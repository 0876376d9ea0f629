"""Authorization lists with HTCondor's answers: its collector, asked by condor_ping as six callers from six addresses.

Callers proved themselves by CLAIMTOBE, which grants nothing by itself, and host names were made of addresses (NO_DNS).
Here they show certificates. Of local accounts we decide otherwise on purpose: tests/unit/test_authorization.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.authorization import settings
from slotwise.authorization.entries import Peer
from slotwise.authorization.policy import LEVELS
from slotwise.config import load
from slotwise.wire.token import Identity

CASES = json.loads(Path(__file__).with_name("authorization.json").read_text())
#: Where we decide otherwise, on purpose: who names hosts by reverse look-up could name one `127.0.evil.example`, and so
#: get past `127.0.*`; and an IPv4 address that is written as an IPv6 one is that address.
DIFFERENT = ("12*", "::1 fe80::/10 fe80:* ::ffff:127.0.0.5")


def addresses_of(name: str) -> list[str]:
    return [name.partition(".")[0].replace("-", ".")] if name.endswith(".peer.local") else []


@pytest.mark.parametrize("case", CASES, ids=[" ".join(case["knobs"].values()) or "nothing" for case in CASES])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "condor_config"
    path.write_text("".join(f"{name} = {value}\n" for name, value in case["knobs"].items()))
    policy = settings.read(load(str(path), subsystem="COLLECTOR", env={}), "COLLECTOR")
    policy = settings.resolved(policy, {name: addresses_of(name) for name in settings.host_names(policy)})
    got = {}
    for who in case["allowed"]:
        name, address = who.split()
        # All of them called from the collector's own host.
        peer = Peer((address,), (address.replace(".", "-") + ".peer.local",), local=True)
        caller = Identity(name, frozenset(), method="SSL")
        got[who] = {level for level in LEVELS if policy.decide(caller, level, peer).allowed}
    expected = {who: set(levels.split()) for who, levels in case["allowed"].items()}
    if case["knobs"].get("ALLOW_WRITE") in DIFFERENT:
        assert got != expected
    else:
        assert got == expected

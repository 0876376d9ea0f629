"""What condor_who says of daemons that HTCondor has and whose work the schedd does."""

from __future__ import annotations

from slotwise.cli.pool.who import readiness
from slotwise.wire.gen import daemon_pb2


def test_what_the_schedd_does_is_as_ready_as_it_is() -> None:
    daemons = [
        daemon_pb2.DaemonStatus(name="master", state="running"),
        daemon_pb2.DaemonStatus(name="schedd", state="backoff"),
    ]
    ad = readiness(daemons, True, ["credd", "credmon_oauth"])
    assert (ad["CREDD"], ad["CREDMON_OAUTH"], ad["NumDaemons"], ad["NumHold"]) == ("Hold", "Hold", 2, 1)
    assert "CREDD" not in readiness(daemons[:1], True, ["credd"]), "no schedd runs here"

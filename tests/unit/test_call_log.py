"""What a daemon logs of the calls that it answers and refuses."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from slotwise.wire.call import RefusalDelays, RefusalLog, method_name, peer_of
from slotwise.wire.claim_text import shown
from slotwise.wire.gen import startd_pb2


class Call:
    """The only thing that is asked of a servicer context."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer


@pytest.mark.parametrize(
    ("peer", "shown"),
    [
        ("ipv4:127.0.0.1:4444", "<127.0.0.1:4444>"),
        ("ipv6:%5B::1%5D:4444", "<[::1]:4444>"),
        ("unix:", "a local socket"),
        ("unix:/run/x.sock", "a local socket"),
        ("", "an unknown address"),
    ],
)
def test_addresses_show_as_in_htcondor(peer: str, shown: str) -> None:
    context: Any = Call(peer)
    assert peer_of(context) == shown


def test_methods_show_without_their_package() -> None:
    assert method_name("/slotwise.v1.Schedd/Act") == "Schedd/Act"
    assert method_name("/other.Service/Call") == "other.Service/Call"


def of_daemon(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What goes into the daemon's log; the audit log has the same lines."""
    audited = [record.getMessage() for record in caplog.records if record.name == "D_AUDIT"]
    found = [record for record in caplog.records if record.name != "D_AUDIT"]
    assert audited == [record.getMessage() for record in found]
    return found


def test_refusals_of_one_caller_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    at = [0.0]
    log = RefusalLog(lambda: at[0])
    for n in range(5000):
        log.note("eve", f"<10.0.0.9:{n}>", "refused %d", n)
    log.note("ann", "<10.0.0.1:1>", "refused once")
    assert [record.getMessage() for record in of_daemon(caplog)] == [
        *(f"refused {n}" for n in range(10)),
        "refused once",
    ]
    caplog.clear()
    at[0] = 31.0
    log.note("eve", "<10.0.0.9:9>", "refused again")
    assert [record.getMessage() for record in of_daemon(caplog)] == [
        "4990 more calls of eve from 10.0.0.9 were refused",
        "refused again",
    ]


def test_callers_without_end_share_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = RefusalLog(lambda: 0.0)
    for n in range(20_000):
        log.note(f"user{n}", "<10.0.0.9:1>", "refused %d", n)
    assert len(of_daemon(caplog)) == 1010


def test_claim_messages_show_neither_secrets_nor_tokens() -> None:
    claim_id = "<127.0.0.1:9618>#1795350908#7#0123456789abcdef"
    request = startd_pb2.ClaimRequest(
        claim_id=claim_id,
        activate=startd_pb2.ActivateClaim(run_id="12.0#1", run_token="tttttttt", job_ad=b"adadad", shadow_address="s"),
    )
    assert shown(request) == "activate of claim <127.0.0.1:9618>#1795350908#7#... run_id=12.0#1"
    asked = startd_pb2.ClaimRequest(
        claim_id=claim_id,
        request=startd_pb2.RequestClaim(submitter="ann@here", num_dynamic_slots=3, preempt_claim_ids=[claim_id]),
    )
    assert shown(asked) == "request of claim <127.0.0.1:9618>#1795350908#7#... submitter=ann@here num_dynamic_slots=3"
    hello = startd_pb2.ClaimRequest(hello=startd_pb2.ScheddHello(schedd_name="s", claim_ids=[claim_id]))
    granted = startd_pb2.ClaimEvent(granted=startd_pb2.ClaimGranted(leftover_claim_id=claim_id))
    assert (shown(hello), shown(granted)) == ("hello", "granted")
    ended = startd_pb2.ClaimEvent(ended=startd_pb2.ClaimEnded(reason="PREEMPT", reason_code=1011))
    assert shown(ended) == "ended reason=PREEMPT reason_code=1011"


def test_who_shows_wrong_tokens_waits_longer_and_longer_by_address() -> None:
    at = [100.0]
    backoff = RefusalDelays(lambda: at[0])
    waits = [backoff.failed(f"<10.0.0.9:{n}>") for n in range(18)]
    assert waits == [0.0] * 10 + [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert backoff.failed("<10.0.0.8:1>") == 0.0
    at[0] += 61.0
    assert backoff.failed("<10.0.0.9:1>") == 0.0, "an old failure is forgotten"


def test_many_addresses_cost_no_memory() -> None:
    backoff = RefusalDelays()
    for n in range(5000):
        backoff.failed(f"<10.0.{n >> 8}.{n & 255}:1>")
    assert len(backoff._failures) <= 1000

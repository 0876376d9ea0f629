"""Messages between schedd and startd as the category D_PROTOCOL shows them: without claim secrets and tokens."""

from __future__ import annotations

import logging

from slotwise.ids import public_claim_id
from slotwise.wire.gen import startd_pb2

protocol = logging.getLogger("D_PROTOCOL")

#: What is shown of a message's fields. Others are secrets, ads, or lists of either.
_SHOWN = (
    "run_id",
    "submitter",
    "num_dynamic_slots",
    "lease_s",
    "state",
    "activity",
    "fast",
    "resume",
    "reason",
    "code",
    "reason_code",
    "reason_subcode",
)


def log_message(text: str, who: str, message: startd_pb2.ClaimRequest | startd_pb2.ClaimEvent) -> None:
    """A line for a message to or from ``who``, if D_PROTOCOL is selected."""
    if protocol.isEnabledFor(logging.INFO):
        protocol.info(text, who, shown(message))


def shown(message: startd_pb2.ClaimRequest | startd_pb2.ClaimEvent) -> str:
    """A message in a line."""
    what = message.WhichOneof("what") or "nothing"
    parts = [what]
    if message.claim_id:
        parts.append(f"of claim {public_claim_id(message.claim_id)}")
    if what != "nothing":
        own = getattr(message, what)
        names = own.DESCRIPTOR.fields_by_name
        parts += [f"{name}={value}" for name in _SHOWN if name in names and (value := getattr(own, name))]
    return " ".join(parts)

"""Secrets and unique names. Only edges call these; deciding code receives ids as arguments."""

from __future__ import annotations

import hashlib
import secrets


def secret(bits: int = 128) -> str:
    """A random text nobody can guess, safe in names, metadata and URLs."""
    return secrets.token_hex(bits // 8)


def claim_id(address: str, boot_time: int, sequence: int) -> str:
    """A claim capability: ``<address>#boot time#sequence#secret``; the part before the last ``#`` is public."""
    return f"{address}#{boot_time}#{sequence}#{secret()}"


def public_claim_id(claim: str) -> str:
    """What may be shown and logged of a claim id: all but the secret."""
    head, _, _ = claim.rpartition("#")
    return f"{head}#..."


def masked_claim_id(claim: str) -> str:
    """A claim id with a digest in place of its secret: still another for each claim. A masked one stays as it is."""
    public, hash_sign, secret = claim.rpartition("#")
    if not hash_sign or secret.startswith("sha256:"):
        return claim
    return f"{public}#sha256:{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


def job_of_run(run_id: str) -> str:
    """``12.0`` of the run ``12.0#3``; the whole id where it has no such part."""
    return run_id.partition("#")[0]


def doing_for_run(run_id: str, doing: str) -> str:
    """What is done for a run, as a log line says it: ``12.0: DOING (run 12.0#3)``, so that its job's id finds it."""
    return f"{job_of_run(run_id)}: {doing} (run {run_id})" if run_id else doing

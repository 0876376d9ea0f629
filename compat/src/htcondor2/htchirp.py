"""Files and attributes of the access point from inside a running job: the package ``htchirp`` where it is there."""

from __future__ import annotations

try:
    from htchirp import HTChirp, condor_chirp
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "htcondor2.htchirp is the package htchirp here: pip install htchirp, or call condor_chirp", name="htchirp"
    ) from None

__all__ = ["HTChirp", "condor_chirp"]

"""The submit description language: text in, cluster ads and per-job differences out, packed for the wire.

The language is in Rust (crate ``config``, module ``submit``); this is its Python interface. Rules: HTCondor manual,
"Submitting a Job" and the condor_submit page.
"""

from slotwise.submit.parsing import Outline, outline, parse
from slotwise.submit.submission import Cluster, Submission

__all__ = ["Cluster", "Outline", "Submission", "outline", "parse"]

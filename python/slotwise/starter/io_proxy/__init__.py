"""Chirp: what a running job asks of its access point, over the protocol that HTCondor's chirp clients speak."""

"""The access point: a durable job queue, its side of negotiation, claims, and the shadows of running jobs."""

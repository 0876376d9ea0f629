"""Negotiation as the schedd sees it: resource requests, matches, and the claims that are requested for them."""

"""Machines that sleep: the levels, the decision when to sleep, and what it would have saved. Pure."""

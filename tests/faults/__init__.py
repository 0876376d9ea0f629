"""Faults dealt to a live pool at random, and what became of its jobs: `make test-faults`."""

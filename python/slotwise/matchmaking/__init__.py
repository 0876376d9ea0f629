"""Matchmaking without a daemon: cycles over tables and files, why a job does not match, reports. No gRPC, no clock.

The negotiator runs its cycles through it, and commands on files (``slotwise negotiate``, ``analyze --slots``).
"""

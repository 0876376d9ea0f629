"""Commands about the pool: machines, negotiation, priorities, power."""

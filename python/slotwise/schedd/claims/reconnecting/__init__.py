"""Claims and runs after breaks and restarts, and what is due with time."""

"""The command server of a pool: runs `slotwise` commands in a warm process for the user who owns the pool."""

"""``slotwise node``: hosts join a pool, are listed, drained, removed, and leave it."""

"""Which job starts on a claim, when, and how its run begins."""

"""The life cycles of claims and of the runs on them, as the schedd sees them: pure state machines, one table each."""

"""Event logs that the schedd writes for users and administrators."""

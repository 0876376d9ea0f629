"""The owner's policy: expressions of the configuration for each slot."""

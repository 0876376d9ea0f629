"""The schedd's durable state, and the commits that make a decision durable before it acts."""

"""The slot ads: attributes in layers, statistics, loads, and what cron jobs have printed."""

"""Startd cron: an administrator's programs that find things out about the machine, for the ads of its slots."""

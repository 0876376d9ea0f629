"""Cron jobs of daemons: an administrator's programs that find things out, for the ads of slots or a schedd."""

"""Cron jobs of daemons: an administrator's programs that add to the ads of slots or of a schedd."""

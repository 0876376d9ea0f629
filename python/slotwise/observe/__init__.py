"""What daemons tell about themselves: logs, metrics."""

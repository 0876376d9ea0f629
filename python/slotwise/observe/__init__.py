"""What daemons report about themselves: logs, metrics."""

"""Putting the machine to sleep when all slots agree (HIBERNATE), and what follows when it wakes."""

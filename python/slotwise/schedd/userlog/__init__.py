"""The event logs of jobs, and the access point's own."""

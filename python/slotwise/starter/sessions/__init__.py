"""InteractiveSessions to running jobs: looks at their files (`tail`), and shells beside them (`ssh-to-job`)."""

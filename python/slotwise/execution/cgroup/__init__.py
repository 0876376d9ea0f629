"""Control groups of jobs: what the host has (`probe`), and what one job gets (`plan`)."""

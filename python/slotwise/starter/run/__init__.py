"""One run of a job: its life cycle, what it reports, and how it is taken up after a restart."""

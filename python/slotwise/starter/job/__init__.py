"""What the parts of a run share: its job, its directories, usage, failures, and the ads at the edge."""

"""Jobs and runs that have ended: queries, history files, pruning."""

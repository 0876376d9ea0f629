"""Files of a job at the execution point."""

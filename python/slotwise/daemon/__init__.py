"""What all daemons have in common: start-up, logs, signals, address file, the `Daemon` service."""

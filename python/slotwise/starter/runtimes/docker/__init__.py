"""Docker, and what understands its command line: jobs in containers of a daemon, or of podman."""

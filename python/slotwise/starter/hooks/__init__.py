"""Programs beside a job: hooks and file transfer plugins."""

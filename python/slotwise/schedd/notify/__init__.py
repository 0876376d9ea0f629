"""Mail to the owners of jobs (``notification``): what is sent when, and its texts."""

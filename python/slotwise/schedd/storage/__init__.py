"""What the schedd keeps on disk, and how a decision becomes durable before it acts."""

"""The job queue in memory: records, ads, autoclusters, and the moves that jobs make. Decides; does no I/O."""

"""The defragmenter: drains partitionable slots from time to time, so that jobs that want whole machines can start."""

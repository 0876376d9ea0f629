"""The defragmenter: drains partitionable slots now and then, so that jobs that want whole machines can start."""

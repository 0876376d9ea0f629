"""What the startd advertises: slot ads, its own ad, statistics."""

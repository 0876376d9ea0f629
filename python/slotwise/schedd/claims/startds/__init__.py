"""The streams to startds, and what comes over them."""

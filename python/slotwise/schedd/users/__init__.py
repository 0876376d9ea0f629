"""User records, and queue superusers."""

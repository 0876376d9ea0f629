"""The web service: an HTTP API for programs, a page for people, and metrics for Prometheus."""

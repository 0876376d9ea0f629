"""The starter's connections: shadows, keepers, the startd."""

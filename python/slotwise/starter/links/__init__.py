"""The starter's connections: shadows and the startd."""

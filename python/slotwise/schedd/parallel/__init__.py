"""The parallel universe: jobs of several nodes, which start together on slots of a dedicated scheduler."""

"""The collector: the newest ad of every daemon and slot of the pool."""

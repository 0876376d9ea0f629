"""Glide-ins: an execution point as an ordinary user inside another system's job, for as long as that lasts."""

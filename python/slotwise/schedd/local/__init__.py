"""Jobs of the scheduler and local universes: they run on the access point itself, each under a keeper of its own."""

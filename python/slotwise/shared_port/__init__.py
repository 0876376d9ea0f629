"""The one port of a host: passes connections on to its daemons, and to hosts that nobody can connect to."""

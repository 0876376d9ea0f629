"""The master: starts the daemons of a host in order, restarts those that die, adopts those that live, stops them."""

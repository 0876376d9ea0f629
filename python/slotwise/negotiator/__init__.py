"""The negotiator: cycles, accounting, and the daemon around them."""

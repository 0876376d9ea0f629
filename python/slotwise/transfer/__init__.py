"""File transfer, as far as access points and those who submit share it."""

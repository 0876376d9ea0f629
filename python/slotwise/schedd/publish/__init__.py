"""What the schedd advertises of itself and its submitters."""

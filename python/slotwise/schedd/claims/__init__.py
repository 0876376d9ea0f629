"""The schedd's side of claims: matches, starts, ends, startds, reconnecting. :mod:`.claiming` wires the parts."""

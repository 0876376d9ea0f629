"""What the startd knows of each slot: its record, and the parts that the record is made of."""

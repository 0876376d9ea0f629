"""The ends of runs and of claims: reported, asked for, or for others who wait."""

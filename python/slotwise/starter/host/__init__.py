"""The runs of one host: commands of the startd, preparation, recovery, and what is due as time goes by."""

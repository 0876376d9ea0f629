"""The access point's end of running jobs: their starters' streams, reports, chirp, interactive sessions, exits."""

"""Credentials of users that the access point keeps, renews and gives to their jobs (decision 26)."""

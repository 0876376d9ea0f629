"""The demonstration: a personal pool that does real work for two users, start to end (`make demo`)."""

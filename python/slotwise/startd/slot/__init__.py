"""One slot: its states, the table of transitions, and what the owner's policy makes of it. Pure."""

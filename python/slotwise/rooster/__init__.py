"""The rooster: wakes machines that sleep when jobs have been matched with them."""

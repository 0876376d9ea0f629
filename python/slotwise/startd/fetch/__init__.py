"""Work that hooks fetch: when a slot asks for some, what it takes, which hooks are notified, and how they are run."""

"""Work that hooks fetch: when a slot asks for some, what it takes, which hooks hear of it, and how they are run."""

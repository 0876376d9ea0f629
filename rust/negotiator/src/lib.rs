//! One negotiation cycle as a pure function of snapshot, configuration and time.

"""Commands about this host: configuration, daemons, tokens, expressions."""

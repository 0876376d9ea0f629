"""The wire between daemons: channels, servers, authentication, conversion. The only package that sees protobuf."""

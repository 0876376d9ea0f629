"""What commands share: the caller, options, where daemons answer, output formats."""

"""The `slotwise` command. Each subcommand is ``main(args, inv) -> exit status`` in a module of its own."""

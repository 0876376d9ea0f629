"""What jobs run in besides the bare host: containers and virtual machines."""

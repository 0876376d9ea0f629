"""What ends when the schedd itself fails at a message."""

"""Plain values of the field that several daemons share: slots, claims, resources."""

"""Opening files that users name: with the job owner's rights, without blocking, without following magic links."""

"""Transfers of jobs' files at the access point: input, output and spooled files."""

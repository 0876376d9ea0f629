"""Scratch directories: layout, volumes, encryption, and their removal."""

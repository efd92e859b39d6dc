"""Errors, files, progress, interrupts: what every package uses."""

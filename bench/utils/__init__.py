"""Helpers used by all packages: errors, files, progress, signals."""

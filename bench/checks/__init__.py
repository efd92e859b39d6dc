"""Checks of results, of methods and of this machine."""

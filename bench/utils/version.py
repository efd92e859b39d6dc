"""The version of sentbench."""

__version__ = "0.1.0"

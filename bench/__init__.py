"""The machinery of sentbench: from text to table. See docs/architecture.md."""

__version__ = "0.1.0"

"""Export of a suite's results: sentence-transformers folders, mteb results, tidy tables."""

EXPORT_FORMATS = ("sentence-transformers", "mteb", "table")

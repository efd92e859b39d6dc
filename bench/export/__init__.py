"""Export of a suite's results: folders of sentence-transformers, mteb's results."""

EXPORT_FORMATS = ("sentence-transformers", "mteb")

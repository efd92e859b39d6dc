"""Export of a suite's trained encoders to sentence-transformers."""

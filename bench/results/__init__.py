"""Records of scores, their provenance, and the files of a suite."""

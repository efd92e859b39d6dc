"""From an encoder to scores: vectors, classifiers, protocols."""

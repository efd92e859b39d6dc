"""The stages of a run: train, score and analyse, each with a lease of a device."""

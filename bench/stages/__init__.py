"""What is done with a run: train, score, analyse, each with a lease of a device."""

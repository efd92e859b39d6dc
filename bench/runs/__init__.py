"""A run: method, backbone, corpus, data, seed and recipe; its identity, place and cost."""

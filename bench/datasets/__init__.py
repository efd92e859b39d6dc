"""Readers of training corpora, evaluation sets and word vectors."""

"""Encoders: a backbone, its tokens, its forward pass, its pooler."""

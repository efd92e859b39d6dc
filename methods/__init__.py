"""The methods, one file each, named after the paper. `base.py` is what they import."""

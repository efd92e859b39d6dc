"""The methods, one file each, named after the paper. `base` is what they import."""

"""Methods and backbones by name, those of other packages too."""

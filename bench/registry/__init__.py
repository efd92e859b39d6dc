"""Methods and backbones by name, those of the user too."""

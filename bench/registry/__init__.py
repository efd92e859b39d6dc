"""Methods and backbones by name, also the user's."""

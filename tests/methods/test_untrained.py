"""Tables of untrained for the tests of all methods (`outside.of_methods`)."""

OUT_OF_LIMITS = {"untrained": "pooler=cls_mlp"}

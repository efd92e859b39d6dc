"""What the tests of all methods need to know of untrained (`outside.of_methods`)."""

OUT_OF_LIMITS = {"untrained": "pooler=cls_mlp"}

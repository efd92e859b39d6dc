"""What the tests of all methods need to know of sscl (`outside.of_methods`)."""

OUT_OF_LIMITS = {"sscl": "layer=-1 stack=-1 positive=other negatives=some sides=two"}
WITHOUT_EFFECT = {"stack": ("layer=1", 2, 1)}

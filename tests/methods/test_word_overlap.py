"""What the tests of all methods need to know of word-overlap (`outside.of_methods`)."""

OUT_OF_LIMITS = {"word-overlap": "width=0"}

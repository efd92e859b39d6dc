"""Tables of word-overlap for the tests of all methods (`outside.of_methods`)."""

OUT_OF_LIMITS = {"word-overlap": "width=0"}

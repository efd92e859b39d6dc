"""Tables of word-overlap for the tests of all methods (`method_runs.of_methods`)."""

OUT_OF_LIMITS = {"word-overlap": "width=0"}

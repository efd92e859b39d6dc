"""word-overlap: what the tests of all methods need to know of it."""

# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "word-overlap": "width=0",
}

"""Tables of untrained for the tests of all methods (`method_runs.of_methods`)."""

OUT_OF_LIMITS = {"untrained": "pooler=cls_mlp"}

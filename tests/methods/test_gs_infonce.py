"""Tables of gs-infonce for the tests of all methods (`method_runs.of_methods`)."""

OUT_OF_LIMITS = {"gs-infonce": "multiple=-1 std=0 weight=-1 multiple=many weight=nan weight=true"}
WITHOUT_EFFECT = {"std": ("multiple=0", 1.0, 2.0), "weight": ("multiple=0", 1.0, 2.0)}

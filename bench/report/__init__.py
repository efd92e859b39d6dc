"""Tables, figures and the page of a suite."""

LEADERBOARD_FORMATS = ("text", "markdown", "latex", "csv")

"""The rows that judging makes of a suite and everything that is rendered reads: their models
(`rows.py`) and their verdicts (`verdicts.py`)."""

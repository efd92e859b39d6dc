"""The rows that judging makes of a suite and everything that is rendered reads: their models
(`rows.py`), their words (`words.py`) and their files in `results/<suite>/judged/` (`store.py`)."""

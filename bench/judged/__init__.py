"""The rows that judging makes of a suite and everything that is rendered reads: their models
(`rows.py`), their words (`words.py`) and their file `results/<suite>/judged.json` (`store.py`)."""

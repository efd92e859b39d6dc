"""The catalogue: one file per method, named as its paper names it. `base.py` holds the contract."""

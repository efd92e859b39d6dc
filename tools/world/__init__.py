"""The generator of the toy data, whose files bench/world has (docs/explanation/toy-data.md).

python -m tools.world data FOLDER
python -m tools.world backbone bert|roberta|chinese SEED FOLDER
python -m tools.world vectors FILE
"""

"""Adapters of peft, an optional library: merged into the weights of their base model.

Only safetensors are read, by this module: peft's own loading would also unpickle and download.
"""

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file

from bench.registry.backbones import ADAPTER
from bench.utils.errors import UserError
from bench.utils.files import read_json

WEIGHTS = "adapter_model.safetensors"


def check_adapter(folder: Path) -> None:
    """Refuse the adapter of a folder without peft, or one that is not in safetensors."""
    if importlib.util.find_spec("peft") is None:
        raise UserError(
            f"{folder} holds an adapter ({ADAPTER}), and peft is not installed; pip install "
            '"sentbench[adapters]", or merge it into the weights with peft\'s merge_and_unload'
        )
    if not (folder / WEIGHTS).is_file():
        raise UserError(
            f"{folder} holds an adapter ({ADAPTER}) without {WEIGHTS}; convert pickled weights to "
            "safetensors, or download it again"
        )


@contextmanager
def without_adapter(folder: Path) -> Iterator[Path]:
    """A folder with links to the files of a model, without its adapter, which transformers would
    read, too."""
    with TemporaryDirectory(prefix="sentbench-") as temporary:
        for path in folder.iterdir():
            if not path.name.startswith("adapter_"):
                Path(temporary, path.name).symlink_to(path.resolve())
        yield Path(temporary)


def merged(model: Any, folder: Path) -> Any:
    """A transformer with the adapter of a folder merged into its weights; `UserError` if that has
    other tensors than its configuration describes."""
    import peft

    # Of an adapter for a model with a head, names have the attribute that holds the transformer.
    prefix = re.compile(rf"^(base_model\.model\.){re.escape(model.base_model_prefix)}\.")
    tensors = {
        prefix.sub(r"\1", name): tensor for name, tensor in load_file(folder / WEIGHTS).items()
    }
    config = peft.PeftConfig.from_peft_type(**read_json(folder / ADAPTER))
    adapted = peft.get_peft_model(model, config)
    peft.set_peft_model_state_dict(adapted, tensors)
    expected = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    differing = sorted(expected.keys() ^ tensors.keys())
    if differing:
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model: {differing[0]} is only in one of them; "
            "merge the adapter with peft's merge_and_unload, and save the model"
        )
    return adapted.merge_and_unload()
